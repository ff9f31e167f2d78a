"""What is shipped to run Rajada in containers, held against the code."""
