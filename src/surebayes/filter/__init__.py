"""A model that lives in a folder, judges documents and learns from every correction, exactly."""
