"""Where the verl of a plan comes from: a release of the package index, a checkout, or an image."""
