import type { ScriptDefinitions, SandboxGuest } from '../sandboxProtocol';
import type { Role } from '../roles';
import type { EntryPointCall } from './entryPointCall';
import { makeConsole, type LogSink } from './console';
import { define } from './define';
import { concat, stringify, truncate, whenSettled } from './intrinsics';
import { formatThrown } from './formatValue';

const MAX_MESSAGE_LENGTH = 1000;
const MAX_STACK_LENGTH = 8192;

/**
 * Prepares the call of the script's function for a role; undefined if it has none. `input` is the JSON text of the
 * role's input.
 */
export type CallFinder = (role: Role, definitions: ScriptDefinitions, input: string) => EntryPointCall | undefined;

/**
 * Defines the global `makeGuest` for the host, which deletes it before any script runs. The memory is restored before
 * each script. There is one bundle for encoders and one for decoders, because parsing the code that a role does not
 * need would take longer than most scripts run.
 */
export function installGuest(findCall: CallFinder): void {
  define({
    makeGuest: (sink: LogSink, isPromise: (value: unknown) => boolean, random: () => number) =>
      makeGuest(findCall, { sink, isPromise, random }),
  });
}

/** The functions of the host that the guest calls. */
interface HostFunctions {
  /** Receives the lines of the script's log. */
  readonly sink: LogSink;
  /** Only the engine can distinguish a promise from an object that looks like one. */
  readonly isPromise: (value: unknown) => boolean;
  /** Returns a random number like Math.random, whose own state is restored before each script. */
  readonly random: () => number;
}

/** Defines the globals of the scripts and returns the methods that the host calls. */
function makeGuest(findCall: CallFinder, { sink, isPromise, random }: HostFunctions): SandboxGuest {
  const exports = {};
  Object.defineProperty(Math, 'random', { value: random, writable: true, configurable: true, enumerable: false });
  define({ console: makeConsole(sink), module: { exports }, exports, self: globalThis, global: globalThis });
  // The state of what the script's function returned. A value that is not a promise counts as fulfilled.
  let state: 'fulfilled' | 'pending' | 'rejected' = 'fulfilled';
  let call: EntryPointCall | undefined;
  let result: unknown;

  /** Stores what the script's function returned. The value or reason of a promise replaces it when it is settled. */
  function storeReturned(returned: unknown): void {
    result = returned;
    if (!isPromise(returned)) return;
    state = 'pending';
    whenSettled(
      returned,
      (value) => {
        state = 'fulfilled';
        result = value;
      },
      (reason) => {
        state = 'rejected';
        result = reason;
      },
    );
  }

  return {
    call(role, definitions, input) {
      call = findCall(role, definitions, input);
      if (call) storeReturned(call.run());
      return call !== undefined;
    },
    read() {
      if (state === 'rejected') throw result;
      return state === 'pending' ? (call as EntryPointCall).formatUnsettled() : (call as EntryPointCall).read(result);
    },
    explain: (thrown) =>
      concat(
        '{"message":',
        stringify(formatThrown(thrown, MAX_MESSAGE_LENGTH)),
        ',"stack":',
        stringify(readStack(thrown)),
        '}',
      ),
  };
}

/** Reads the stack of a thrown value; empty if it has none, or if the script's getter throws. */
function readStack(thrown: unknown): string {
  if (typeof thrown !== 'object' || thrown === null) return '';
  try {
    const { stack } = thrown as { stack?: unknown };
    return typeof stack === 'string' ? truncate(stack, MAX_STACK_LENGTH) : '';
  } catch {
    return '';
  }
}
