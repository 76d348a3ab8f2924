"""What is wrong with the workflows of a repository, whether or not it uses the suite."""
