import { UsageError } from '../exit';

/** What a device answered to a command. */
export type DeviceAnswer = { readonly ok: true; readonly message: string } | { readonly ok: false; readonly code: string; readonly message: string };

/** A device behind the simulated gateway. Its readings follow from its state and the count of readings, never from chance. */
export interface SimulatedDevice {
  /** As the connection knows it. */
  readonly clientDeviceId: string;
  /** The values of the next uplink. */
  read(): Record<string, unknown>;
  /** Does what a command says: an object of JSON, or bytes. */
  act(payload: unknown): DeviceAnswer;
}

type Members = Readonly<Record<string, unknown>>;

const KINDS: Readonly<Record<string, (clientDeviceId: string) => SimulatedDevice>> = { valve: heatingValve, relay, room: roomSensor };

/** The devices that are played when none are named: a heating valve, a relay, a room sensor. */
export const USUAL_DEVICES: readonly string[] = ['valve-1', 'relay-1', 'room-1'];

/** Devices by their ids; the part before the first `-` says what each is: valve, relay or room. Throws UsageError for others. */
export function simulatedDevices(ids: readonly string[]): SimulatedDevice[] {
  return ids.map((id) => {
    const make = KINDS[id.split('-')[0] ?? ''];
    if (!make) throw new UsageError(`there is no simulated device ${JSON.stringify(id)}; its id must begin with ${Object.keys(KINDS).join(', ')}, for example valve-1`);
    return make(id);
  });
}

/** Takes `{"position": 0..100}`, or the bytes 01 and the position; sends position, temperature and battery. */
function heatingValve(clientDeviceId: string): SimulatedDevice {
  let position = 0;
  const shown = new ShownState();
  const wave = waves();
  return {
    clientDeviceId,
    read: () => ({ position, temperature: wave(35 + position / 4, 1.5), battery: 3.1, ...shown.members }),
    act: (payload) => {
      const told = payload instanceof Uint8Array ? valveBytes(payload) : membersOf(payload);
      const isSetting = Object.keys(told).length > 0 && !('position' in told);
      const wanted = isSetting ? position : told['position'];
      if (typeof wanted !== 'number' || wanted < 0 || wanted > 100) return { ok: false, code: 'bad_position', message: 'position must be a number from 0 to 100; in bytes 01 and then the position' };
      const problem = shown.take(told, ['position']);
      if (problem) return problem;
      position = wanted;
      return { ok: true, message: `position is ${position}` };
    },
  };
}

function valveBytes([command, position, ...more]: Uint8Array): Members {
  return command === 1 && position !== undefined && more.length === 0 ? { position } : {};
}

/** Takes `{"on": true}` or `{"relay": 0, "on": true}`, or relay and state as two bytes; sends the states of its two relays. */
function relay(clientDeviceId: string): SimulatedDevice {
  const relays = [false, false];
  const shown = new ShownState();
  return {
    clientDeviceId,
    read: () => ({ relays: [...relays], power: relays.filter(Boolean).length * 42, ...shown.members }),
    act: (payload) => {
      const told = payload instanceof Uint8Array ? { relay: payload[0], on: [false, true][payload[1] ?? 2] } : membersOf(payload);
      const { relay: at = 0, on } = told as { readonly relay?: unknown; readonly on?: unknown };
      if ((at !== 0 && at !== 1) || typeof on !== 'boolean') return { ok: false, code: 'bad_relay', message: 'relay must be 0 or 1, on must be true or false; in bytes 00 or 01 each' };
      const problem = shown.take(told, ['relay', 'on']);
      if (problem) return problem;
      relays[at] = on;
      return { ok: true, message: `relay ${at} is ${on ? 'on' : 'off'}` };
    },
  };
}

/** Takes no commands; sends temperature, humidity and CO2. */
function roomSensor(clientDeviceId: string): SimulatedDevice {
  const [temperature, humidity, co2] = [waves(), waves(), waves()];
  return {
    clientDeviceId,
    read: () => ({ object: { temperature: temperature(21, 2), humidity: humidity(45, 8), co2: Math.round(co2(600, 150)) } }),
    act: () => ({ ok: false, code: 'no_commands', message: 'a room sensor takes no commands' }),
  };
}

// An uplink has room for 64 KiB.
const MOST_SHOWN_BYTES = 16_384;

/** Members of commands that a device does not understand: it keeps them and shows them, as a device does with its settings. */
class ShownState {
  members: Members = {};

  /** Keeps all but those that the device understands; answers no when there would be too much to show. */
  take(told: Members, understood: readonly string[]): DeviceAnswer | undefined {
    const settings = Object.fromEntries(Object.entries(told).filter(([name]) => !understood.includes(name)));
    const members = { ...this.members, ...settings };
    if (JSON.stringify(members).length > MOST_SHOWN_BYTES) return { ok: false, code: 'too_many_settings', message: `the device keeps ${MOST_SHOWN_BYTES} bytes of settings` };
    this.members = members;
    return undefined;
  }
}

function waves(): (middle: number, height: number) => number {
  let count = 0;
  return (middle, height) => Math.round((middle + height * Math.sin((count++ * Math.PI) / 12)) * 100) / 100;
}

function membersOf(payload: unknown): Members {
  return typeof payload === 'object' && payload !== null ? (payload as Members) : {};
}
