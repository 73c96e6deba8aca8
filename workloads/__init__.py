"""What runs on the accelerator. Ships in an image, so it imports nothing else of this project."""
