"""A model that is stored in a folder, judges documents and learns from every correction, exactly."""
