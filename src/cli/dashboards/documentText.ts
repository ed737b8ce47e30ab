import { formatYaml } from '../../kernel/formatYaml';
import { isObject } from '../../kernel/jsonValue';
import { escapeJson } from '../output';

/** Fields that the server computes; an import ignores them. */
const COMPUTED_FIELDS = new Set(['dashboardId', 'createdAt', 'updatedAt', 'etag', 'unknownKind']);

/** Lists whose items are short: each is written on one line. */
const ONE_LINE_LISTS: ReadonlySet<string> = new Set(['layout', 'series']);

/**
 * Returns a document of an exported dashboard without the fields that have their default. The order of its fields is
 * that of the format; the options of widgets are sorted by name, so that two exports of the same dashboard are equal.
 */
export function omitDefaults(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(omitDefaults);
  if (!isObject(value)) return value;
  const entries = Object.entries(value)
    .filter(([name]) => !COMPUTED_FIELDS.has(name))
    .map(([name, inner]): [string, unknown] => [name, name === 'options' ? sortNames(inner) : omitDefaults(inner)]);
  return Object.fromEntries(entries.filter(([, inner]) => !isDefault(inner)));
}

/** Whether a field may be left out. Numbers are always written: a place without its column 0 is hard to read. */
function isDefault(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length === 0;
  return value === '' || value === false || value === null;
}

/** Sorts the names of an object and of all objects in it. Nothing is left out: options have no common defaults. */
function sortNames(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortNames);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([name, inner]) => [name, sortNames(inner)]));
}

/** Formats JSON of the server as YAML. Control characters are escaped, so that they cannot control the terminal. */
export function formatDocument(value: unknown): string {
  return escapeJson(formatYaml(value, ONE_LINE_LISTS));
}
