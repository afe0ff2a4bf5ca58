"""The durable form of open groups: entries of the changelog, and rows of cold groups."""
