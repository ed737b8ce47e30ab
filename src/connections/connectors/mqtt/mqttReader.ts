import { createHash } from 'node:crypto';
import { jsonProblem } from '../../../kernel/jsonValue';
import type { UplinkIdentity, UplinkMessage } from '../../connector';
import type { BrokerMessage } from '../broker/brokerTraffic';
import { valueAtPath } from './jsonPath';
import type { MqttSettings } from './mqttSettings';
import { MQTT } from './mqttType';
import { TopicReader } from './topicTemplate';

/** What a device published, less whose it is; or why it can never be stored. */
export type ReadUplink = Pick<UplinkMessage, 'clientDeviceId' | 'identity' | 'payload' | 'encoded' | 'time'> | { readonly reason: string };

const MOST_BYTES = 64 * 1024;
/** Larger numbers are milliseconds: as seconds they would be later than the year 5000. */
const MOST_SECONDS = 100_000_000_000;
const ISO_TIME = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?) ?(z|[+-]\d\d:\d\d)?)?$/i;
const BYTE_ORDER_MARK = /^\uFEFF/;
const EARLIEST_TIME = Date.UTC(1, 0, 1);
const LATEST_TIME = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/** Reads what devices publish. */
export class MqttReader {
  private readonly topics: TopicReader;

  constructor(private readonly settings: Pick<MqttSettings, 'uplinkTopic' | 'timePath' | 'uplinkIdPath'>) {
    this.topics = new TopicReader(settings.uplinkTopic);
  }

  /** Whether a message would come where uplinks come. */
  isFor(topic: string): boolean {
    return this.topics.read(topic) !== undefined;
  }

  /** Undefined: the topic is not one of uplinks. */
  read(message: BrokerMessage): ReadUplink | undefined {
    const named = this.topics.read(message.topic);
    if (named === undefined) return undefined;
    const clientDeviceId = MQTT.findClientDeviceId(named);
    if (clientDeviceId === undefined) return { reason: `client_device_id_invalid: the topic names a device whose id is none; an id has ${MQTT.clientDeviceIdForm}` };
    const content = readPayload(message.payload);
    if ('reason' in content) return content;
    const { payload } = content;
    const { timePath, uplinkIdPath } = this.settings;
    const json = payload.kind === 'json' ? payload.value : {};
    const time = timePath === undefined ? undefined : timeOf(valueAtPath(json, timePath));
    const id = uplinkIdPath === undefined ? undefined : identityOf(clientDeviceId, valueAtPath(json, uplinkIdPath));
    return { clientDeviceId, identity: id ?? message.identity, ...content, time };
  }
}

/** JSON that is no object becomes `{"value": …}`, beside the bytes: those of a device that sends such may look like digits. What is no JSON is taken as bytes. */
function readPayload(bytes: Buffer): Pick<UplinkMessage, 'payload' | 'encoded'> | { readonly reason: string } {
  if (bytes.length > MOST_BYTES) return { reason: `payload_too_large: it is ${bytes.length} bytes; send at most ${MOST_BYTES}` };
  const parsed = parse(bytes);
  if (!parsed) return { payload: { kind: 'bytes', bytes } };
  const value = isObject(parsed.value) ? parsed.value : { value: parsed.value };
  const problem = jsonProblem(value);
  if (problem !== undefined) return { reason: `payload_invalid: it ${problem}` };
  return { payload: { kind: 'json', value }, ...(value !== parsed.value && { encoded: bytes }) };
}

/** Parsed JSON, with a byte order mark or without; undefined: it is none. */
export function parse(bytes: Buffer): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(bytes.toString().replace(BYTE_ORDER_MARK, '')) as unknown };
  } catch {
    return undefined; // devices send all sorts of things
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Unix milliseconds; undefined for what is no time. Without an offset it is UTC, not what the clock of this machine happens to show. */
function timeOf(value: unknown): number | undefined {
  const time = typeof value === 'number' ? Math.floor(Math.abs(value) < MOST_SECONDS ? value * 1000 : value) : typeof value === 'string' ? textTimeOf(value) : Number.NaN;
  return time >= EARLIEST_TIME && time <= LATEST_TIME ? time : undefined;
}

function textTimeOf(text: string): number {
  const [, date = '', time, offset = 'Z'] = ISO_TIME.exec(text) ?? [];
  return Date.parse(time === undefined ? date : `${date}T${time.replace(',', '.')}${offset.toUpperCase()}`);
}

/** Devices number their messages each for itself, and the number may be long. */
function identityOf(clientDeviceId: string, id: unknown): UplinkIdentity | undefined {
  if ((typeof id !== 'string' && typeof id !== 'number') || id === '') return undefined;
  return { kind: 'id', uplinkId: createHash('sha256').update(JSON.stringify([clientDeviceId, id])).digest('base64url') };
}
