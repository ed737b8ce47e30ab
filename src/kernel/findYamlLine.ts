import { type Document, isNode, LineCounter, parseDocument } from 'yaml';

/**
 * Returns a function that finds the line of a field, from 1, for example of `content.widgets[0].kind`; of the innermost
 * existing part if the field is missing. `text`: a document that readYaml accepted, which bounds its depth.
 */
export function createYamlLineFinder(text: string): (field: string) => number {
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter, uniqueKeys: false, prettyErrors: false });
  return (field) => findLine(document, lineCounter, field);
}

function findLine(document: Document, lineCounter: LineCounter, field: string): number {
  const path = field.split(/[.[\]]+/).filter(Boolean);
  for (let length = path.length; length > 0; length -= 1) {
    const node: unknown = document.getIn(
      path.slice(0, length).map((step) => (/^\d+$/.test(step) ? Number(step) : step)),
      true,
    );
    if (isNode(node) && node.range) return lineCounter.linePos(node.range[0]).line;
  }
  return 1;
}
