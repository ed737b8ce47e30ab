/** The placeholder for the id of a device in a topic. */
export const DEVICE = '{clientDeviceId}';

/** Characters that brokers do not accept in topics: they close the connection. */
export const UNUSABLE_IN_TOPIC = /[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]/u;

const MAX_BYTES = 65_535;
/** The characters with a meaning in regular expressions. */
const REGEXP_SYNTAX = /[.*+?^${}()|[\]\\]/g;

/** Counts the placeholders of the device in a template. */
export function countDevicePlaceholders(template: string): number {
  return template.split(DEVICE).length - 1;
}

/** Returns the topic of one device. */
export function fillTopic(template: string, clientDeviceId: string): string {
  return template.replaceAll(DEVICE, clientDeviceId);
}

/** Returns whether publishing on a topic is possible. Topics that start with `$` are reserved for the broker. */
export function isPublishable(topic: string): boolean {
  return (
    topic !== '' &&
    !topic.startsWith('$') &&
    !/[+#]/.test(topic) &&
    !UNUSABLE_IN_TOPIC.test(topic) &&
    Buffer.byteLength(topic) <= MAX_BYTES
  );
}

/** Returns whether a topic exists that matches both templates, for any devices. */
export function doTemplatesOverlap(templateA: string, templateB: string): boolean {
  const levelsA = templateA.split('/');
  const levelsB = templateB.split('/');
  for (let index = 0; ; index++) {
    const levelA = levelsA[index];
    const levelB = levelsB[index];
    if (levelA === '#' || levelB === '#') return true; // `a/#` also matches `a`
    if (levelA === undefined || levelB === undefined) return levelA === levelB;
    if (!doLevelsOverlap(levelA, levelB)) return false;
  }
}

/**
 * Returns whether a text matches both levels of templates. Two levels with a placeholder overlap if one of their fixed
 * starts begins with the other, and one of their fixed ends ends with the other: `a-{clientDeviceId}` overlaps with
 * `{clientDeviceId}-b`.
 */
function doLevelsOverlap(levelA: string, levelB: string): boolean {
  if (levelA === '+' || levelB === '+') return true;
  if (!levelA.includes(DEVICE)) return matchesFilter(levelA, levelB);
  if (!levelB.includes(DEVICE)) return matchesFilter(levelB, levelA);
  const edgesA = getEdges(levelA);
  const edgesB = getEdges(levelB);
  const doStartsMatch = edgesA.before.startsWith(edgesB.before) || edgesB.before.startsWith(edgesA.before);
  const doEndsMatch = edgesA.after.endsWith(edgesB.after) || edgesB.after.endsWith(edgesA.after);
  return doStartsMatch && doEndsMatch;
}

/** Returns the fixed text before the first and after the last placeholder. */
function getEdges(level: string): { readonly before: string; readonly after: string } {
  return {
    before: level.slice(0, level.indexOf(DEVICE)),
    after: level.slice(level.lastIndexOf(DEVICE) + DEVICE.length),
  };
}

/** Returns the filter to subscribe to: the level with the placeholder becomes `+`. */
export function toFilter(template: string): string {
  return template
    .split('/')
    .map((level) => (level.includes(DEVICE) ? '+' : level))
    .join('/');
}

/**
 * Matches topics against a template that may contain `{clientDeviceId}` once, `+` as complete levels, and `#` as the
 * last level.
 */
export class TopicReader {
  private readonly pattern: RegExp;

  constructor(template: string) {
    this.pattern = new RegExp(`^${template.split('/').map(toLevelPattern).join('')}$`, 's');
  }

  /** Returns whether a topic matches the template. */
  matches(topic: string): boolean {
    return this.findDeviceId(topic) !== undefined;
  }

  /**
   * Returns the device id in a topic, empty if the template has no placeholder; undefined if the topic does not match.
   */
  findDeviceId(topic: string): string | undefined {
    const match = this.pattern.exec(`/${topic}`); // toLevelPattern expects a `/` before each level
    return match ? (match[1] ?? '') : undefined;
  }
}

/** Returns whether a topic matches a filter. */
export function matchesFilter(topic: string, filter: string): boolean {
  return new TopicReader(filter).matches(topic);
}

/** Returns the pattern of a level with the `/` before it: `#` includes its `/`, because `a/#` also matches `a`. */
function toLevelPattern(level: string): string {
  if (level === '#') return '(?:/.*)?';
  if (level === '+') return '/[^/]*';
  return `/${level
    .split(DEVICE)
    .map((text) => text.replace(REGEXP_SYNTAX, '\\$&'))
    .join('([^/]+)')}`;
}
