import { jsonProblem } from '../../../kernel/jsonValue';
import type { ChirpStackCodec, ChirpStackEvent } from './chirpStackEvent';
import { type ChirpStackTopics, isEventKind } from './chirpStackTopics';
import { findDevEui } from './devEui';

/** An event of a device of the application. */
export interface ReadEvent {
  /** 16 lower-case hexadecimal digits. */
  readonly devEui: string;
  readonly event: ChirpStackEvent;
}

/** Why an event is not used. `ignored`: it is not for this connection; `rejected`: it is none, and would be none the next time either. */
export interface Unread {
  readonly kind: 'ignored' | 'rejected';
  /** One of few, snake_case. */
  readonly why: string;
  /** More, for people; never what the payload held. */
  readonly detail: string;
}

const MOST_BYTES = 256 * 1024;
const LARGEST_PORT = 255;
const MOST_OBJECT_BYTES = 64 * 1024;

/** Reads what comes under the topics of events. */
export class ChirpStackReader {
  constructor(
    private readonly topics: ChirpStackTopics,
    private readonly codec: ChirpStackCodec,
    private readonly applicationId: string,
  ) {}

  /** The event, or why it is not used. Never throws. */
  read(topic: string, payload: Buffer): ReadEvent | Unread {
    const found = this.topics.readEvent(topic);
    if (!found) return { kind: 'ignored', why: 'other_topic', detail: 'the topic is not one of the application' };
    if (!isEventKind(found.event)) return { kind: 'ignored', why: 'other_event', detail: 'an event of this name is not used' };
    const devEui = findDevEui(found.devEui);
    if (devEui === undefined) return rejected('dev_eui_invalid', 'the topic holds no DevEUI');
    if (payload.length > MOST_BYTES) return rejected('event_too_large', `it has ${payload.length} bytes; ${MOST_BYTES} are read`);
    try {
      return this.judge(devEui, this.codec.decode(found.event, payload));
    } catch {
      return rejected('event_unreadable', 'it cannot be decoded; see that `encoding` is what ChirpStack is set to');
    }
  }

  private judge(devEui: string, event: ChirpStackEvent): ReadEvent | Unread {
    const { device } = event;
    if (device.applicationId.toLowerCase() !== this.applicationId) return { kind: 'ignored', why: 'other_application', detail: 'it is of a device of another application' };
    if (findDevEui(device.devEui) !== devEui) return rejected('dev_eui_differs', 'topic and payload name different devices');
    if (event.kind !== 'up') return { devEui, event };
    if (event.fPort > LARGEST_PORT) return rejected('f_port_invalid', `the port is above ${LARGEST_PORT}`);
    return (event.object && objectFault(event.object)) ?? { devEui, event };
  }
}

function objectFault(object: object): Unread | undefined {
  const problem = jsonProblem({ object });
  if (problem !== undefined) return rejected('object_invalid', `the decoded object ${problem}`);
  const bytes = Buffer.byteLength(JSON.stringify(object));
  return bytes > MOST_OBJECT_BYTES ? rejected('object_too_large', `the decoded object has ${bytes} bytes; ${MOST_OBJECT_BYTES} are taken`) : undefined;
}

function rejected(why: string, detail: string): Unread {
  return { kind: 'rejected', why, detail };
}
