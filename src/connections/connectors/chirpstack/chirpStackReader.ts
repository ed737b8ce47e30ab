import { findJsonProblem } from '../../../kernel/jsonValue';
import type { ChirpStackCodec, ChirpStackEvent } from './chirpStackEvent';
import { type ChirpStackTopics, isEventKind } from './chirpStackTopics';
import { findDevEui } from './devEui';

/** An event of a device of the application. */
interface ReadEvent {
  /** 16 lower-case hexadecimal digits. */
  readonly devEui: string;
  readonly event: ChirpStackEvent;
}

/**
 * The reason why an event is not used. `ignored`: it is not for this connection. `rejected`: it is invalid, and a
 * repetition would be too.
 */
export interface UnusedEvent {
  readonly kind: 'ignored' | 'rejected';
  /** One of a few codes in snake_case. */
  readonly why: string;
  /** A description; never contains the payload. */
  readonly detail: string;
}

/** The maximum size of an event, bytes. */
export const MAX_EVENT_BYTES = 256 * 1024;
const MAX_F_PORT = 255;
const MAX_OBJECT_BYTES = 64 * 1024;

/** Parses messages on event topics. */
export class ChirpStackReader {
  constructor(
    private readonly topics: ChirpStackTopics,
    private readonly codec: ChirpStackCodec,
    private readonly applicationId: string,
  ) {}

  /** Returns the device in a topic of events; undefined if the topic is another one. */
  findDevEui(topic: string): string | undefined {
    const topicParts = this.topics.readEvent(topic);
    return topicParts && findDevEui(topicParts.devEui);
  }

  /** Returns the event, or the reason why it is not used. Never throws. */
  read(topic: string, payload: Buffer): ReadEvent | UnusedEvent {
    const topicParts = this.topics.readEvent(topic);
    if (!topicParts)
      return { kind: 'ignored', why: 'other_topic', detail: 'the topic does not belong to the application' };
    if (!isEventKind(topicParts.event))
      return { kind: 'ignored', why: 'other_event', detail: 'events with this name are not used' };
    const devEui = findDevEui(topicParts.devEui);
    if (devEui === undefined) return rejected('dev_eui_invalid', 'the topic contains no DevEUI');
    if (payload.length > MAX_EVENT_BYTES)
      return rejected('event_too_large', `the event has ${payload.length} bytes; the maximum is ${MAX_EVENT_BYTES}`);
    try {
      return this.checkEvent(devEui, this.codec.decode(topicParts.event, payload));
    } catch {
      return rejected(
        'event_unreadable',
        'the event cannot be decoded; check that `encoding` matches the configuration of ChirpStack',
      );
    }
  }

  /** Returns the event if it belongs to the application and the device of its topic; otherwise why it is not used. */
  private checkEvent(devEui: string, event: ChirpStackEvent): ReadEvent | UnusedEvent {
    const { device } = event;
    if (device.applicationId.toLowerCase() !== this.applicationId)
      return { kind: 'ignored', why: 'other_application', detail: 'the device belongs to another application' };
    if (findDevEui(device.devEui) !== devEui)
      return rejected('dev_eui_differs', 'topic and payload contain different devices');
    if (event.kind !== 'up') return { devEui, event };
    if (event.fPort > MAX_F_PORT) return rejected('f_port_invalid', `the port is greater than ${MAX_F_PORT}`);
    return (event.object && checkObject(event.object)) ?? { devEui, event };
  }
}

/** Returns why the object that the network server decoded is not used; undefined if it is valid. */
function checkObject(object: object): UnusedEvent | undefined {
  const problem = findJsonProblem({ object });
  if (problem !== undefined) return rejected('object_invalid', `the decoded object ${problem}`);
  const bytes = Buffer.byteLength(JSON.stringify(object));
  return bytes > MAX_OBJECT_BYTES
    ? rejected('object_too_large', `the decoded object has ${bytes} bytes; the maximum is ${MAX_OBJECT_BYTES}`)
    : undefined;
}

function rejected(why: string, detail: string): UnusedEvent {
  return { kind: 'rejected', why, detail };
}
