"""Does an image fit a cluster: questions, and readers of the cluster's answers."""
