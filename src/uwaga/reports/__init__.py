"""Reports as one HTML file that needs no network: pages, tables and charts."""
