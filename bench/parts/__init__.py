"""The parts of `python -m bench`: each measures one side of the system and gives back its figures."""
