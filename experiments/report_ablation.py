from .report_document import Document
def ablation_report(table, folder, missing, baseline): return Document("x")
