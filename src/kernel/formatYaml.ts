import { Document, isMap, isScalar, isSeq, Scalar, visit } from 'yaml';

/** Characters that control a terminal; line ends may stay. */
const CONTROL_CHARACTER = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

/**
 * Formats a JSON value as YAML. Texts with control characters are in double quotes, where they can be escaped.
 * `oneLineLists`: names of lists whose items are each written on one line.
 */
export function formatYaml(value: unknown, oneLineLists: ReadonlySet<string>): string {
  const document = new Document(value, { aliasDuplicateObjects: false });
  visit(document, {
    Scalar: (_, node) => {
      if (typeof node.value === 'string' && CONTROL_CHARACTER.test(node.value)) node.type = Scalar.QUOTE_DOUBLE;
    },
    Pair: (_, { key, value: list }) => {
      if (!isScalar(key) || !oneLineLists.has(String(key.value)) || !isSeq(list)) return;
      for (const item of list.items) if (isMap(item)) item.flow = true;
    },
  });
  return document.toString({ lineWidth: 0, flowCollectionPadding: true });
}
