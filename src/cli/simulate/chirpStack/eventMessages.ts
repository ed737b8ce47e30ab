import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import { encodeReading } from '../rawReading';
import type { QueueItem } from './downlinkQueue';
import type { LorawanDevice } from './lorawanDevices';

// The JSON messages of ChirpStack v4's MQTT integration, according to its proto definitions (integration.proto). Like
// in ChirpStack, fields with the default value (0, false, an empty text) are omitted.

/** The kinds of events that the simulation publishes. */
type EventKind = 'up' | 'join' | 'txack' | 'ack' | 'log' | 'status';

/** An event, ready to be published. */
export interface NetworkEvent {
  readonly kind: EventKind;
  readonly body: Readonly<Record<string, unknown>>;
}

/** The common properties of an event: application, device, and time (Unix milliseconds). */
export interface EventSource {
  readonly applicationId: string;
  readonly device: LorawanDevice;
  readonly time: number;
}

/** The properties of an uplink. */
interface UplinkFields {
  readonly deduplicationId: string;
  readonly devAddr: string;
  readonly fCnt: number;
  readonly confirmed: boolean;
  readonly values: Readonly<Record<string, unknown>>;
  /** There is no codec, so the uplink contains no decoded values. */
  readonly isRaw: boolean;
}

const GATEWAYS = [
  { gatewayId: '0016c001f1530101', rssi: -57, snr: 9.5 },
  { gatewayId: '0016c001f1530102', rssi: -103, snr: -2.25 },
] as const;
const UPLINK_PORT = 2;

/**
 * Creates an uplink event, received by both simulated gateways, with slightly different signals for each uplink. Data
 * rate 5 in EU868 is spreading factor 7 with a bandwidth of 125 kHz.
 */
export function createUpEvent(
  source: EventSource,
  { deduplicationId, devAddr, fCnt, confirmed, values, isRaw }: UplinkFields,
): NetworkEvent {
  const signalVariation = (fCnt % 7) - 3; // -3 to 3
  const rxInfo = GATEWAYS.map(({ gatewayId, rssi, snr }) => ({
    gatewayId,
    uplinkId: randomInt(1, 2 ** 31),
    nsTime: formatTime(source.time),
    rssi: rssi + signalVariation,
    snr: snr + signalVariation / 4,
    context: randomBytes(4).toString('base64'),
    metadata: { region_config_id: 'eu868', region_common_name: 'EU868' },
    crcStatus: 'CRC_OK',
  }));
  const txInfo = {
    frequency: 868_100_000,
    modulation: { lora: { bandwidth: 125_000, spreadingFactor: 7, codeRate: 'CR_4_5' } },
  };
  return {
    kind: 'up',
    body: omitDefaults({
      deduplicationId,
      ...createCommonFields(source),
      devAddr,
      adr: true,
      dr: 5,
      fCnt,
      fPort: UPLINK_PORT,
      confirmed,
      data: encodeReading(values).toString('base64'),
      ...(!isRaw && { object: values }),
      rxInfo,
      txInfo,
      regionConfigId: 'eu868',
    }),
  };
}

/** Creates the event of a join. */
export function createJoinEvent(source: EventSource, devAddr: string): NetworkEvent {
  return {
    kind: 'join',
    body: omitDefaults({
      deduplicationId: randomUUID(),
      ...createCommonFields(source),
      devAddr,
      regionConfigId: 'eu868',
    }),
  };
}

/** Creates the event of a downlink that a gateway transmitted. */
export function createTxAckEvent(source: EventSource, item: QueueItem, fCntDown: number): NetworkEvent {
  const txInfo = {
    frequency: 868_100_000,
    power: 16,
    modulation: { lora: { bandwidth: 125_000, spreadingFactor: 7, codeRate: 'CR_4_5', polarizationInversion: true } },
  };
  return {
    kind: 'txack',
    body: omitDefaults({
      downlinkId: randomInt(1, 2 ** 31),
      ...createCommonFields(source),
      queueItemId: item.id,
      fCntDown,
      gatewayId: GATEWAYS[0].gatewayId,
      txInfo,
    }),
  };
}

/** Creates the event of a confirmed downlink: acknowledged, or its acknowledgement is missing. */
export function createAckEvent(
  source: EventSource,
  item: QueueItem,
  deduplicationId: string,
  fCntDown: number,
  acknowledged: boolean,
): NetworkEvent {
  return {
    kind: 'ack',
    body: omitDefaults({
      deduplicationId,
      ...createCommonFields(source),
      queueItemId: item.id,
      acknowledged,
      fCntDown,
    }),
  };
}

/** Creates a log event of the network server about a device. */
export function createLogEvent(
  source: EventSource,
  level: 'INFO' | 'WARNING' | 'ERROR',
  code: string,
  description: string,
  context: Readonly<Record<string, string>>,
): NetworkEvent {
  return {
    kind: 'log',
    body: omitDefaults({
      ...createCommonFields(source),
      level: level === 'INFO' ? '' : level, // INFO is the default value, which is omitted
      code,
      description,
      context,
    }),
  };
}

/** Creates a status event with battery level and link margin. */
export function createStatusEvent(source: EventSource, margin: number, batteryLevel: number): NetworkEvent {
  return {
    kind: 'status',
    body: omitDefaults({
      deduplicationId: randomUUID(),
      ...createCommonFields(source),
      margin,
      externalPowerSource: false,
      batteryLevelUnavailable: false,
      batteryLevel,
    }),
  };
}

/** Creates the fields of every event: its time, and the device with its tenant, application and profile. */
function createCommonFields({ applicationId, device, time }: EventSource): Readonly<Record<string, unknown>> {
  const deviceInfo = {
    tenantId: '00000000-0000-4000-8000-000000000001',
    tenantName: 'Simulated tenant',
    applicationId,
    applicationName: 'Simulated application',
    deviceProfileId:
      device.deviceClass === 'A' ? '00000000-0000-4000-8000-00000000000a' : '00000000-0000-4000-8000-00000000000c',
    deviceProfileName: `Simulated class ${device.deviceClass}`,
    deviceName: device.name,
    devEui: device.devEui,
    ...(device.deviceClass === 'C' && { deviceClassEnabled: 'CLASS_C' }), // CLASS_A is the default value
    tags: {},
  };
  return { time: formatTime(time), deviceInfo };
}

/** Formats a time as RFC 3339 with nanoseconds, like ChirpStack. */
function formatTime(time: number): string {
  return new Date(time).toISOString().replace('Z', '000000+00:00');
}

/** Omits fields with a default value, as the JSON of protobuf does. */
function omitDefaults(body: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== 0 && value !== false && value !== ''));
}
