import { type ConnectionPolicy, type ConnectorKind, isLorawan } from '../../connections';
import { type DataSendingInterval, type Device, computeMedianUplinkGap } from '../../devices';
import type { ExecutionPolicy } from '../execution';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const INTERVAL_MS: Readonly<Record<DataSendingInterval['unit'], number>> = {
  minute: MINUTE,
  hour: HOUR,
  day: DAY,
  week: 7 * DAY,
  month: 30 * DAY,
};

/** The inputs of an execution's policy. */
interface PolicyInputs {
  /** Undefined: the device has no connection. */
  readonly kind: ConnectorKind | undefined;
  /** The policy of the connection; empty: the device has no connection. */
  readonly policy: ConnectionPolicy;
  readonly device: Pick<Device, 'dataSendingInterval' | 'physicalDevice'>;
  /** The content is sent as JSON, so a network server encodes it. */
  readonly isDirect?: boolean;
}

/**
 * Computes the policy of an execution: the time limits of the connection's policy, otherwise the defaults of its type
 * and of the device's uplink interval. `classA`: a LoRaWAN device that listens only after its own uplink.
 */
export function computeExecutionPolicy({ kind, policy, device, isDirect = false }: PolicyInputs): ExecutionPolicy {
  const usesLorawan = isLorawan(kind);
  const classA = usesLorawan && isClassA(device);
  const uplinkIntervalMs = getUplinkIntervalMs(usesLorawan, policy, device);
  const defaultDeliveryMs = getDefaultDeliveryMs(usesLorawan, classA, uplinkIntervalMs, policy);
  return {
    deliveryMs: toMilliseconds(policy.deliveryTimeout) ?? defaultDeliveryMs,
    ackMs: toMilliseconds(policy.ackTimeout) ?? getDefaultAckMs(kind, classA, uplinkIntervalMs),
    uplinkIntervalMs,
    classA,
    implicitAckMs: toMilliseconds(policy.implicitAckTimeout),
    convergenceMs: toMilliseconds(policy.convergenceTimeout),
    ...(usesLorawan && isDirect && { isEncodedByNetwork: true }),
  };
}

/** The maximum number of undelivered executions per device. */
export function getQueueLimit(kind: ConnectorKind | undefined, policy: ConnectionPolicy): number {
  return policy.queueLimit ?? (isLorawan(kind) ? 16 : 64);
}

/** Returns how long a device has to respond, milliseconds: class A can answer only in its next uplinks. */
function getDefaultAckMs(kind: ConnectorKind | undefined, classA: boolean, uplinkIntervalMs: number): number {
  if (classA) return 2 * uplinkIntervalMs + MINUTE;
  return kind === 'mqtt' || kind === 'mqtt_answer' ? 30 * SECOND : MINUTE;
}

/**
 * Returns how long a delivery may take, milliseconds, if the policy sets no limit: a day if the peer of the
 * connection is often disconnected (`sleepy`).
 */
function getDefaultDeliveryMs(
  usesLorawan: boolean,
  classA: boolean,
  uplinkIntervalMs: number,
  policy: ConnectionPolicy,
): number {
  if (usesLorawan) return getLorawanDeliveryMs(classA, uplinkIntervalMs);
  return policy.sleepy ? DAY : MINUTE;
}

/**
 * Returns how long a delivery over LoRaWAN may take, milliseconds: class A listens only after its own uplink, so three
 * uplinks, but between 10 minutes and 7 days.
 */
function getLorawanDeliveryMs(classA: boolean, uplinkIntervalMs: number): number {
  if (!classA) return 2 * MINUTE;
  const threeUplinksMs = 3 * uplinkIntervalMs + MINUTE;
  return Math.min(Math.max(threeUplinksMs, 10 * MINUTE), 7 * DAY);
}

/**
 * Whether a device listens only after its own uplink. A LoRaWAN device is class A unless its configuration says B or C
 * or, without such a setting, its last reported class is B or C.
 */
function isClassA({ physicalDevice }: PolicyInputs['device']): boolean {
  const configuredClass = physicalDevice?.configuration['deviceClass'];
  const deviceClass = typeof configuredClass === 'string' ? configuredClass : physicalDevice?.reportedClass;
  return deviceClass === undefined || !['B', 'C'].includes(deviceClass.toUpperCase());
}

/**
 * Returns the interval between uplinks, milliseconds: the configured one, else the measured one, else that of the
 * connection or the device profile, else 1 hour for LoRaWAN and 1 minute for others.
 */
function getUplinkIntervalMs(
  usesLorawan: boolean,
  policy: ConnectionPolicy,
  { dataSendingInterval, physicalDevice }: PolicyInputs['device'],
): number {
  if (dataSendingInterval) return dataSendingInterval.value * INTERVAL_MS[dataSendingInterval.unit];
  return (
    computeMedianUplinkGap(physicalDevice?.uplinkGaps ?? []) ??
    toMilliseconds(policy.uplinkInterval) ??
    toMilliseconds(physicalDevice?.profileInterval) ??
    (usesLorawan ? HOUR : MINUTE)
  );
}

function toMilliseconds(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * SECOND;
}
