from .report_document import Document
def microrts_report(table, folder, missing): return Document("x")
