"""What a person holds of a group: opening one, `Group` and its operations, and the services beside them."""
