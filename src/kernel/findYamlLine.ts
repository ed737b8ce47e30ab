import { isNode, LineCounter, parseDocument } from 'yaml';

/**
 * Returns the line of a field, from 1, for example of `content.widgets[0].kind`; of the innermost existing part if the
 * field is missing. `text`: a document that readYaml accepted, which bounds its depth.
 */
export function findYamlLine(text: string, field: string): number {
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter, uniqueKeys: false, prettyErrors: false });
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
