/** Stands for the id of a device in a topic. */
export const DEVICE = '{clientDeviceId}';

const SPECIAL = /[.*+?^${}()|[\]\\]/g;

/** How often the device's placeholder stands in a text. */
export function countDevices(template: string): number {
  return template.split(DEVICE).length - 1;
}

/** A topic for one device. */
export function fillTopic(template: string, clientDeviceId: string): string {
  return template.replaceAll(DEVICE, clientDeviceId);
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
