import { UsageError } from '../../exit';
import { simulatedDevices, type SimulatedDevice } from '../simulatedDevices';

/** A device with a radio. */
export interface LorawanDevice {
  /** Its name at the network server. */
  readonly name: string;
  /** 16 hex digits in lower case. */
  readonly devEui: string;
  /** A hears right after an uplink only, C always. */
  readonly deviceClass: 'A' | 'C';
  readonly device: SimulatedDevice;
}

// Locally administered: they belong to no maker of devices.
const PREFIX = '020000000000';
const KINDS: Readonly<Record<string, string>> = { valve: '01', relay: '02', room: '03' };
const OWN_EUI = /^[a-z]+-([0-9a-f]{16})$/i;
const NUMBERED = /^([a-z]+)-(\d{1,3})$/;

/**
 * Devices by their ids: `valve-1` has the DevEUI 0200000000000101, and `valve-` with 16 hex digits names it. Relays are of class C.
 * Throws UsageError for an id that is neither, and for two devices with one DevEUI.
 */
export function lorawanDevices(ids: readonly string[]): LorawanDevice[] {
  const devices = simulatedDevices(ids).map((device): LorawanDevice => {
    const name = device.clientDeviceId;
    return { name, devEui: devEuiOf(name), deviceClass: name.startsWith('relay') ? 'C' : 'A', device };
  });
  if (new Set(devices.map(({ devEui }) => devEui)).size < devices.length) throw new UsageError('--devices names a DevEUI twice; give each device another number');
  return devices;
}

function devEuiOf(id: string): string {
  const own = OWN_EUI.exec(id)?.[1];
  if (own !== undefined) return own.toLowerCase();
  const [, kind = '', number = ''] = NUMBERED.exec(id) ?? [];
  if (KINDS[kind] === undefined || Number(number) > 255) throw new UsageError(`the simulated device ${JSON.stringify(id)} needs a number from 0 to 255 or a DevEUI of 16 hex digits, for example valve-1`);
  return `${PREFIX}${KINDS[kind]}${Number(number).toString(16).padStart(2, '0')}`;
}
