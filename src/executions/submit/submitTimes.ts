import { type ConnectionPolicy, type ConnectorKind, isLorawan } from '../../connections';
import { type DataSendingInterval, type Device, medianUplinkGap } from '../../devices';
import type { ExecutionTimes } from '../execution';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const INTERVAL_MS: Readonly<Record<DataSendingInterval['unit'], number>> = { minute: MINUTE, hour: HOUR, day: DAY, week: 7 * DAY, month: 30 * DAY };

/** What the times of an execution rest on. */
export interface TimedRoute {
  /** Undefined: the device has no connection. */
  readonly kind: ConnectorKind | undefined;
  readonly policy: ConnectionPolicy;
  readonly device: Pick<Device, 'dataSendingInterval' | 'physicalDevice'>;
}

/** The times that are frozen with an execution: those of the connection's policy, else the defaults of its kind and of the device's rhythm. */
export function submitTimes({ kind, policy, device }: TimedRoute): ExecutionTimes {
  const lorawan = isLorawan(kind);
  const classA = lorawan && isClassA(device);
  const uplinkIntervalMs = uplinkInterval(lorawan, policy, device);
  return {
    deliveryMs: seconds(policy.deliveryTimeout) ?? (lorawan ? loraDelivery(classA, uplinkIntervalMs) : policy.sleepy ? DAY : MINUTE),
    ackMs: seconds(policy.ackTimeout) ?? (classA ? 2 * uplinkIntervalMs + MINUTE : kind === 'mqtt' || kind === 'mqtt_answer' ? 30 * SECOND : MINUTE),
    uplinkIntervalMs,
    classA,
    implicitAckMs: seconds(policy.implicitAckTimeout),
    convergenceMs: seconds(policy.convergenceTimeout),
  };
}

/** How many undelivered executions a device may have. */
export function queueLimit(kind: ConnectorKind | undefined, policy: ConnectionPolicy): number {
  return policy.queueLimit ?? (isLorawan(kind) ? 16 : 64);
}

function loraDelivery(classA: boolean, uplinkIntervalMs: number): number {
  return classA ? Math.min(Math.max(3 * uplinkIntervalMs + MINUTE, 10 * MINUTE), 7 * DAY) : 2 * MINUTE;
}

/** A LoRaWAN device is of class A unless its configuration says B or C or, where that says nothing, its last uplink that told. */
function isClassA({ physicalDevice }: TimedRoute['device']): boolean {
  const stated = physicalDevice?.configuration['deviceClass'];
  const deviceClass = typeof stated === 'string' ? stated : physicalDevice?.reportedClass;
  return deviceClass === undefined || !['B', 'C'].includes(deviceClass.toUpperCase());
}

function uplinkInterval(lorawan: boolean, policy: ConnectionPolicy, { dataSendingInterval, physicalDevice }: TimedRoute['device']): number {
  if (dataSendingInterval) return dataSendingInterval.value * INTERVAL_MS[dataSendingInterval.unit];
  return medianUplinkGap(physicalDevice?.uplinkGaps ?? []) ?? seconds(policy.uplinkInterval) ?? seconds(physicalDevice?.profileInterval) ?? (lorawan ? HOUR : MINUTE);
}

function seconds(given: number | undefined): number | undefined {
  return given === undefined ? undefined : given * SECOND;
}
