import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import { rawReading } from '../rawReading';
import type { QueueItem } from './downlinkQueue';
import type { LorawanDevice } from './lorawanDevices';

// The messages of ChirpStack v4's MQTT integration in JSON, as its proto definitions (integration.proto) say them. Like ChirpStack it
// leaves out what has the default value: 0, false, an empty text.

/** The kinds of events that the simulation sends. */
export type EventKind = 'up' | 'join' | 'txack' | 'ack' | 'log' | 'status';

/** An event, ready to be published. */
export interface NetworkEvent {
  readonly kind: EventKind;
  readonly body: Readonly<Record<string, unknown>>;
}

/** What an event says of itself: of which application and device, and when (Unix milliseconds). */
export interface EventSource {
  readonly applicationId: string;
  readonly device: LorawanDevice;
  readonly time: number;
}

/** An uplink. */
export interface UpFacts {
  readonly deduplicationId: string;
  readonly devAddr: string;
  readonly fCnt: number;
  readonly confirmed: boolean;
  readonly values: Readonly<Record<string, unknown>>;
  /** There is no codec that would have decoded it. */
  readonly isRaw: boolean;
}

const GATEWAYS = [
  { gatewayId: '0016c001f1530101', rssi: -57, snr: 9.5 },
  { gatewayId: '0016c001f1530102', rssi: -103, snr: -2.25 },
] as const;
const UPLINK_PORT = 2;

/** The device was heard, by both gateways of the simulation. */
export function upEvent(source: EventSource, { deduplicationId, devAddr, fCnt, confirmed, values, isRaw }: UpFacts): NetworkEvent {
  const swing = (fCnt % 7) - 3;
  const rxInfo = GATEWAYS.map(({ gatewayId, rssi, snr }) => ({ gatewayId, uplinkId: randomInt(1, 2 ** 31), nsTime: timeText(source.time), rssi: rssi + swing, snr: snr + swing / 4, context: randomBytes(4).toString('base64'), metadata: { region_config_id: 'eu868', region_common_name: 'EU868' }, crcStatus: 'CRC_OK' }));
  const txInfo = { frequency: 868_100_000, modulation: { lora: { bandwidth: 125_000, spreadingFactor: 7, codeRate: 'CR_4_5' } } };
  return { kind: 'up', body: withoutDefaults({ deduplicationId, ...about(source), devAddr, adr: true, dr: 5, fCnt, fPort: UPLINK_PORT, confirmed, data: rawReading(values).toString('base64'), ...(!isRaw && { object: values }), rxInfo, txInfo, regionConfigId: 'eu868' }) };
}

/** The device has joined. */
export function joinEvent(source: EventSource, devAddr: string): NetworkEvent {
  return { kind: 'join', body: withoutDefaults({ deduplicationId: randomUUID(), ...about(source), devAddr, regionConfigId: 'eu868' }) };
}

/** A gateway has sent the downlink. */
export function txAckEvent(source: EventSource, item: QueueItem, fCntDown: number): NetworkEvent {
  const txInfo = { frequency: 868_100_000, power: 16, modulation: { lora: { bandwidth: 125_000, spreadingFactor: 7, codeRate: 'CR_4_5', polarizationInversion: true } } };
  return { kind: 'txack', body: withoutDefaults({ downlinkId: randomInt(1, 2 ** 31), ...about(source), queueItemId: item.id, fCntDown, gatewayId: GATEWAYS[0].gatewayId, txInfo }) };
}

/** The device has acknowledged a confirmed downlink, or was not heard to. */
export function ackEvent(source: EventSource, item: QueueItem, deduplicationId: string, fCntDown: number, acknowledged: boolean): NetworkEvent {
  return { kind: 'ack', body: withoutDefaults({ deduplicationId, ...about(source), queueItemId: item.id, acknowledged, fCntDown }) };
}

/** The network server has something to say about a device. */
export function logEvent(source: EventSource, level: 'INFO' | 'WARNING' | 'ERROR', code: string, description: string, context: Readonly<Record<string, string>>): NetworkEvent {
  return { kind: 'log', body: withoutDefaults({ ...about(source), level: level === 'INFO' ? '' : level, code, description, context }) };
}

/** What the device said of its battery and its link. */
export function statusEvent(source: EventSource, margin: number, batteryLevel: number): NetworkEvent {
  return { kind: 'status', body: withoutDefaults({ deduplicationId: randomUUID(), ...about(source), margin, externalPowerSource: false, batteryLevelUnavailable: false, batteryLevel }) };
}

function about({ applicationId, device, time }: EventSource): Readonly<Record<string, unknown>> {
  const deviceInfo = {
    tenantId: '00000000-0000-4000-8000-000000000001',
    tenantName: 'Simulated tenant',
    applicationId,
    applicationName: 'Simulated application',
    deviceProfileId: device.deviceClass === 'A' ? '00000000-0000-4000-8000-00000000000a' : '00000000-0000-4000-8000-00000000000c',
    deviceProfileName: `Simulated class ${device.deviceClass}`,
    deviceName: device.name,
    devEui: device.devEui,
    ...(device.deviceClass === 'C' && { deviceClassEnabled: 'CLASS_C' }), // CLASS_A is the default value
    tags: {},
  };
  return { time: timeText(time), deviceInfo };
}

/** RFC 3339 with nanoseconds, as ChirpStack writes it. */
function timeText(time: number): string {
  return new Date(time).toISOString().replace('Z', '000000+00:00');
}

function withoutDefaults(body: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== 0 && value !== false && value !== ''));
}
