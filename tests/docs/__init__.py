"""What makes the documents: the site of `make docs`, its drawings, and the picture of the demo."""
