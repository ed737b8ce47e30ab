import { UsageError } from '../exit';

/** The response of a device to a command. */
export type DeviceAnswer =
  | { readonly ok: true; readonly message: string }
  | { readonly ok: false; readonly code: string; readonly message: string };

/** A simulated device. Its readings depend on its state and the number of readings, never on chance. */
export interface SimulatedDevice {
  /** The id of the device on its connection. */
  readonly clientDeviceId: string;
  /** Returns the values of the next uplink. */
  read(): Record<string, unknown>;
  /** Executes a command: a JSON object, or bytes. */
  act(payload: unknown): DeviceAnswer;
}

type Members = Readonly<Record<string, unknown>>;

const DEVICE_FACTORIES: Readonly<Record<string, (clientDeviceId: string) => SimulatedDevice>> = {
  valve: createHeatingValve,
  relay: createRelay,
  room: createRoomSensor,
};

/** The default devices: a heating valve, a relay, a room sensor. */
export const DEFAULT_DEVICES: readonly string[] = ['valve-1', 'relay-1', 'room-1'];

/**
 * Creates devices from their ids. The part before the first `-` is the kind: valve, relay or room. Throws UsageError
 * for other kinds.
 */
export function createSimulatedDevices(ids: readonly string[]): SimulatedDevice[] {
  return ids.map((id) => {
    const createDevice = DEVICE_FACTORIES[id.split('-')[0] ?? ''];
    if (!createDevice)
      throw new UsageError(
        `unknown simulated device ${JSON.stringify(id)}: its id must start with ${Object.keys(DEVICE_FACTORIES).join(', ')}, for example valve-1`,
      );
    return createDevice(id);
  });
}

/** Accepts `{"position": 0..100}`, or byte 01 and the position; sends position, temperature and battery. */
function createHeatingValve(clientDeviceId: string): SimulatedDevice {
  let position = 0;
  const settings = new DeviceSettings();
  const wave = createWave();
  return {
    clientDeviceId,
    read: () => ({ position, temperature: wave(35 + position / 4, 1.5), battery: 3.1, ...settings.members }),
    act: (payload) => {
      const command = payload instanceof Uint8Array ? parseValveBytes(payload) : getMembers(payload);
      const hasOnlySettings = Object.keys(command).length > 0 && !('position' in command);
      const requestedPosition = hasOnlySettings ? position : command['position'];
      if (typeof requestedPosition !== 'number' || requestedPosition < 0 || requestedPosition > 100)
        return {
          ok: false,
          code: 'bad_position',
          message: 'position must be a number from 0 to 100; as bytes: 01, then the position',
        };
      const rejection = settings.store(command, ['position']);
      if (rejection) return rejection;
      position = requestedPosition;
      return { ok: true, message: `position is ${position}` };
    },
  };
}

function parseValveBytes([command, position, ...more]: Uint8Array): Members {
  return command === 1 && position !== undefined && more.length === 0 ? { position } : {};
}

/**
 * Accepts `{"on": true}` or `{"relay": 0, "on": true}`, or relay and state as two bytes; sends the states of its two
 * relays.
 */
function createRelay(clientDeviceId: string): SimulatedDevice {
  const relays = [false, false];
  const settings = new DeviceSettings();
  return {
    clientDeviceId,
    read: () => ({ relays: [...relays], power: relays.filter(Boolean).length * 42, ...settings.members }),
    act: (payload) => {
      const command = payload instanceof Uint8Array ? parseRelayBytes(payload) : getMembers(payload);
      const { relay: index = 0, on } = command as { readonly relay?: unknown; readonly on?: unknown };
      if ((index !== 0 && index !== 1) || typeof on !== 'boolean')
        return {
          ok: false,
          code: 'bad_relay',
          message: 'relay must be 0 or 1, on must be true or false; as bytes: 00 or 01 for each',
        };
      const rejection = settings.store(command, ['relay', 'on']);
      if (rejection) return rejection;
      relays[index] = on;
      return { ok: true, message: `relay ${index} is ${on ? 'on' : 'off'}` };
    },
  };
}

/** Converts the two bytes of a relay command to its JSON form; `on` is undefined for a state other than 0 and 1. */
function parseRelayBytes([relay, state]: Uint8Array): Members {
  return { relay, on: state === undefined ? undefined : [false, true][state] };
}

/** Accepts no commands; sends temperature, humidity and CO2. */
function createRoomSensor(clientDeviceId: string): SimulatedDevice {
  const [temperature, humidity, co2] = [createWave(), createWave(), createWave()];
  return {
    clientDeviceId,
    read: () => ({
      object: { temperature: temperature(21, 2), humidity: humidity(45, 8), co2: Math.round(co2(600, 150)) },
    }),
    act: () => ({ ok: false, code: 'no_commands', message: 'a room sensor accepts no commands' }),
  };
}

// An uplink has at most 64 KiB.
const MAX_SETTINGS_BYTES = 16_384;

/**
 * Stores the fields of commands that a device does not interpret and reports them with its readings, like settings of a
 * device.
 */
class DeviceSettings {
  members: Members = {};

  /** Stores all fields except the interpreted ones. Returns a rejection if there is too much to report. */
  store(command: Members, interpreted: readonly string[]): DeviceAnswer | undefined {
    const settings = Object.fromEntries(Object.entries(command).filter(([name]) => !interpreted.includes(name)));
    const members = { ...this.members, ...settings };
    if (JSON.stringify(members).length > MAX_SETTINGS_BYTES)
      return {
        ok: false,
        code: 'too_many_settings',
        message: `the device stores at most ${MAX_SETTINGS_BYTES} bytes of settings`,
      };
    this.members = members;
    return undefined;
  }
}

/** Creates a sine wave around `middle` with a period of 24 readings, rounded to two decimals. */
function createWave(): (middle: number, height: number) => number {
  let count = 0;
  return (middle, height) => Math.round((middle + height * Math.sin((count++ * Math.PI) / 12)) * 100) / 100;
}

function getMembers(payload: unknown): Members {
  return typeof payload === 'object' && payload !== null ? (payload as Members) : {};
}
