"""The payloads of documents: their fields as columns, filters, and facet counts."""
