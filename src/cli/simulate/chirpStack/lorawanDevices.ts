import { UsageError } from '../../exit';
import { createSimulatedDevices, type SimulatedDevice } from '../simulatedDevices';

/** A simulated LoRaWAN device. */
export interface LorawanDevice {
  /** Its name at the network server. */
  readonly name: string;
  /** 16 hex digits in lower case. */
  readonly devEui: string;
  /** A: receives only right after an uplink. C: receives always. */
  readonly deviceClass: 'A' | 'C';
  readonly simulated: SimulatedDevice;
}

// Locally administered: assigned to no manufacturer.
const DEV_EUI_PREFIX = '020000000000';
const KIND_BYTES: Readonly<Record<string, string>> = { valve: '01', relay: '02', room: '03' };
const EXPLICIT_EUI = /^[a-z]+-([0-9a-f]{16})$/i;
const NUMBERED = /^([a-z]+)-(\d{1,3})$/;

/**
 * Creates devices from their ids: `valve-1` has the DevEUI 0200000000000101, and `valve-` with 16 hex digits contains
 * the DevEUI. Relays are class C devices. Throws UsageError for other ids, and for two devices with the same DevEUI.
 */
export function createLorawanDevices(ids: readonly string[]): LorawanDevice[] {
  const devices = createSimulatedDevices(ids).map((simulated): LorawanDevice => {
    const name = simulated.clientDeviceId;
    return { name, devEui: getDevEui(name), deviceClass: name.startsWith('relay') ? 'C' : 'A', simulated };
  });
  if (new Set(devices.map(({ devEui }) => devEui)).size < devices.length)
    throw new UsageError('--devices contains a DevEUI twice: use a different number for each device');
  return devices;
}

/** Returns the DevEUI (the LoRaWAN address of a device) in an id, or the one made of its kind and number. */
function getDevEui(id: string): string {
  const explicitEui = EXPLICIT_EUI.exec(id)?.[1];
  if (explicitEui !== undefined) return explicitEui.toLowerCase();
  const [, kind = '', number = ''] = NUMBERED.exec(id) ?? [];
  if (KIND_BYTES[kind] === undefined || Number(number) > 255)
    throw new UsageError(
      `the simulated device ${JSON.stringify(id)} must have a number from 0 to 255 or a DevEUI of 16 hex digits, for example valve-1`,
    );
  return `${DEV_EUI_PREFIX}${KIND_BYTES[kind]}${Number(number).toString(16).padStart(2, '0')}`;
}
