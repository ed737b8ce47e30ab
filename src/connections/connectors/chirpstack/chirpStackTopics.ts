import { EVENT_KINDS, type EventKind } from './chirpStackEvent';

/** The default topics where ChirpStack publishes events and receives commands. */
export const DEFAULT_TOPICS = {
  eventTopic: 'application/{applicationId}/device/{devEui}/event/{event}',
  commandTopic: 'application/{applicationId}/device/{devEui}/command/down',
} as const;

/** The content of an event topic. */
interface EventTopic {
  /** Not normalized. */
  readonly devEui: string;
  /** The name of the event, which may be unknown to this server. */
  readonly event: string;
}

/** Wildcards, control characters and unpaired surrogates, which a topic must not contain. */
const ILLEGAL_IN_TOPIC = /[#+\p{Cc}\p{Cs}]/u;

/** The topics of one application: both templates with the id of the application inserted. */
export class ChirpStackTopics {
  private readonly levels: readonly string[];

  constructor(
    eventTopic: string,
    private readonly commandTopic: string,
    private readonly applicationId: string,
  ) {
    this.levels = eventTopic.replaceAll('{applicationId}', applicationId).split('/');
  }

  /** The filter that matches every event of every device. */
  get filter(): string {
    return this.levels.map((level) => (isPlaceholder(level) ? '+' : level)).join('/');
  }

  /** Parses an event topic; undefined if it does not match the template. */
  readEvent(topic: string): EventTopic | undefined {
    const topicLevels = topic.split('/');
    if (topicLevels.length !== this.levels.length) return undefined;
    const result: { devEui: string; event: string } = { devEui: '', event: '' };
    for (const [index, level] of this.levels.entries()) {
      if (level === '{devEui}') result.devEui = topicLevels[index] ?? '';
      else if (level === '{event}') result.event = topicLevels[index] ?? '';
      else if (level !== topicLevels[index]) return undefined;
    }
    return result;
  }

  /** Returns the topic for commands to a device. */
  getCommandTopic(devEui: string): string {
    return this.commandTopic.replaceAll('{applicationId}', this.applicationId).replaceAll('{devEui}', devEui);
  }
}

/** Returns whether this is a known kind of event. */
export function isEventKind(name: string): name is EventKind {
  return (EVENT_KINDS as readonly string[]).includes(name);
}

/** Validates an event topic template. Returns the error as the end of a sentence; undefined if it is valid. */
export function checkEventTopic(template: string): string | undefined {
  const levels = template.split('/');
  const isCompleteLevelOnce = (placeholder: string): boolean =>
    levels.filter((level) => level === placeholder).length === 1;
  if (!['{devEui}', '{event}'].every(isCompleteLevelOnce))
    return 'must contain {devEui} and {event} once each, each as a complete level';
  const fixedLevels = levels
    .filter((level) => !isPlaceholder(level))
    .join('/')
    .replaceAll('{applicationId}', '');
  if (/[{}]/.test(fixedLevels)) return describePlaceholder(template);
  return checkTopic(template);
}

/** Validates a command topic template. Returns the error as the end of a sentence; undefined if it is valid. */
export function checkCommandTopic(template: string): string | undefined {
  if (!template.includes('{devEui}')) return 'must contain {devEui}';
  const withoutPlaceholders = template.replaceAll('{applicationId}', '').replaceAll('{devEui}', '');
  return /[{}]/.test(withoutPlaceholders) ? describePlaceholder(template) : checkTopic(template);
}

/** Validates what both templates have in common. */
function checkTopic(template: string): string | undefined {
  if (template.startsWith('$'))
    return 'must not start with `$`: brokers reserve such topics, and ChirpStack does not use them';
  return ILLEGAL_IN_TOPIC.test(template) ? 'must not contain wildcards (`+` or `#`) or control characters' : undefined;
}

function describePlaceholder(text: string): string {
  return `contains an unknown placeholder (${JSON.stringify(text)}): use {applicationId}, {devEui} and, for events, {event}`;
}

function isPlaceholder(level: string): boolean {
  return level === '{devEui}' || level === '{event}';
}
