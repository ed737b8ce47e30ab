/** Stands for the id of a device in a topic. */
export const DEVICE = '{clientDeviceId}';

/** Brokers end a connection on which a topic with one of these comes. */
export const UNUSABLE_IN_TOPIC = /[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]/u;

const MOST_BYTES = 65_535;
const SPECIAL = /[.*+?^${}()|[\]\\]/g;

/** How often the device's placeholder stands in a text. */
export function countDevices(template: string): number {
  return template.split(DEVICE).length - 1;
}

/** A topic for one device. */
export function fillTopic(template: string, clientDeviceId: string): string {
  return template.replaceAll(DEVICE, clientDeviceId);
}

/** Whether something may be published on a topic; those that begin with `$` are the broker's own. */
export function isPublishable(topic: string): boolean {
  return topic !== '' && !topic.startsWith('$') && !/[+#]/.test(topic) && !UNUSABLE_IN_TOPIC.test(topic) && Buffer.byteLength(topic) <= MOST_BYTES;
}

/** Whether some topic may fit both templates, whichever devices they name. */
export function doTemplatesOverlap(one: string, other: string): boolean {
  const levels = one.split('/');
  const others = other.split('/');
  for (let at = 0; ; at++) {
    const [level, another] = [levels[at], others[at]];
    if (level === '#' || another === '#') return true; // `a/#` is also `a`
    if (level === undefined || another === undefined) return level === another;
    if (!doLevelsOverlap(level, another)) return false;
  }
}

function doLevelsOverlap(one: string, other: string): boolean {
  if (one === '+' || other === '+') return true;
  if (!one.includes(DEVICE)) return fitsFilter(one, other);
  if (!other.includes(DEVICE)) return fitsFilter(other, one);
  const [mine, theirs] = [edgesOf(one), edgesOf(other)];
  return areNested(mine.before, theirs.before, (text, part) => text.startsWith(part)) && areNested(mine.after, theirs.after, (text, part) => text.endsWith(part));
}

/** What surely stands before and behind the devices. */
function edgesOf(level: string): { readonly before: string; readonly after: string } {
  return { before: level.slice(0, level.indexOf(DEVICE)), after: level.slice(level.lastIndexOf(DEVICE) + DEVICE.length) };
}

function areNested(one: string, other: string, holds: (text: string, part: string) => boolean): boolean {
  return holds(one, other) || holds(other, one);
}

/** The filter to subscribe with: the level that holds the device becomes `+`. */
export function filterOfTemplate(template: string): string {
  return template
    .split('/')
    .map((level) => (level.includes(DEVICE) ? '+' : level))
    .join('/');
}

/** Reads topics by a template that may hold `{clientDeviceId}` once, `+` as whole levels, and `#` as the last one. */
export class TopicReader {
  private readonly pattern: RegExp;

  constructor(template: string) {
    this.pattern = new RegExp(`^${template.split('/').map(patternOfLevel).join('')}$`, 's');
  }

  /** The device that a topic names, empty if the template names none; undefined: the topic does not fit. */
  read(topic: string): string | undefined {
    const match = this.pattern.exec(`/${topic}`);
    return match ? (match[1] ?? '') : undefined;
  }
}

/** Whether a topic fits a filter. */
export function fitsFilter(topic: string, filter: string): boolean {
  return new TopicReader(filter).read(topic) !== undefined;
}

/** Each with the `/` before it, for `a/#` is also `a`. */
function patternOfLevel(level: string): string {
  if (level === '#') return '(?:/.*)?';
  if (level === '+') return '/[^/]*';
  return `/${level.split(DEVICE).map((text) => text.replace(SPECIAL, '\\$&')).join('([^/]+)')}`;
}
