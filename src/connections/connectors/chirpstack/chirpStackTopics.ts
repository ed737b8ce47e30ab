import { EVENT_KINDS, type EventKind } from './chirpStackEvent';

/** Where ChirpStack publishes events and takes commands, unless its configuration says otherwise. */
export const DEFAULT_TOPICS = {
  eventTopic: 'application/{applicationId}/device/{devEui}/event/{event}',
  commandTopic: 'application/{applicationId}/device/{devEui}/command/down',
} as const;

/** What the topic of an event says. */
export interface EventTopic {
  /** As it was written. */
  readonly devEui: string;
  /** The name of the event, also one that this server does not know. */
  readonly event: string;
}

const ILLEGAL = /[#+\p{Cc}\p{Cs}]/u;

/** The topics of one application: both templates with the application's id in place. */
export class ChirpStackTopics {
  private readonly levels: readonly string[];

  constructor(
    eventTopic: string,
    private readonly commandTopic: string,
    private readonly applicationId: string,
  ) {
    this.levels = eventTopic.replaceAll('{applicationId}', applicationId).split('/');
  }

  /** The subscription that brings every event of every device. */
  get filter(): string {
    return this.levels.map((level) => (isPlaceholder(level) ? '+' : level)).join('/');
  }

  /** Undefined: it is none of these topics. */
  readEvent(topic: string): EventTopic | undefined {
    const given = topic.split('/');
    if (given.length !== this.levels.length) return undefined;
    const found: { devEui: string; event: string } = { devEui: '', event: '' };
    for (const [at, level] of this.levels.entries()) {
      if (level === '{devEui}') found.devEui = given[at] ?? '';
      else if (level === '{event}') found.event = given[at] ?? '';
      else if (level !== given[at]) return undefined;
    }
    return found;
  }

  /** Where a command for a device goes. */
  commandFor(devEui: string): string {
    return this.commandTopic.replaceAll('{applicationId}', this.applicationId).replaceAll('{devEui}', devEui);
  }
}

/** Whether a name is that of a known kind of event. */
export function isEventKind(name: string): name is EventKind {
  return (EVENT_KINDS as readonly string[]).includes(name);
}

/** What is wrong with a template for events, as the end of a sentence; undefined: nothing. */
export function eventTopicFault(template: string): string | undefined {
  const levels = template.split('/');
  if (!['{devEui}', '{event}'].every((wanted) => levels.filter((level) => level === wanted).length === 1)) return 'must hold {devEui} and {event} once each, each as a level of its own';
  const others = levels.filter((level) => !isPlaceholder(level)).join('/').replaceAll('{applicationId}', '');
  if (/[{}]/.test(others)) return placeholderFault(template);
  return topicFault(template);
}

/** The same for a template for commands. */
export function commandTopicFault(template: string): string | undefined {
  if (!template.includes('{devEui}')) return 'must hold {devEui}';
  const unknown = template.replaceAll('{applicationId}', '').replaceAll('{devEui}', '');
  return /[{}]/.test(unknown) ? placeholderFault(template) : topicFault(template);
}

function topicFault(template: string): string | undefined {
  if (template.startsWith('$')) return 'must not begin with `$`; ChirpStack neither publishes nor listens there, and brokers keep such topics to themselves';
  return ILLEGAL.test(template) ? 'must hold no wildcard (`+` or `#`) and no control character' : undefined;
}

function placeholderFault(text: string): string {
  return `holds a placeholder that is not known (${JSON.stringify(text)}); known are {applicationId}, {devEui} and for events {event}`;
}

function isPlaceholder(level: string): boolean {
  return level === '{devEui}' || level === '{event}';
}
