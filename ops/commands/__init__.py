"""The commands of `rajada`, a module for each group; what is heavy is imported inside of them."""
