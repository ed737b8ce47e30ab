import type { Found, Guest } from '../guestWords';
import type { Role } from '../roles';
import type { Call } from './call';
import { makeConsole, type LogSink } from './console';
import { define } from './define';
import { cut, glue, stringify, whenSettled } from './intrinsics';
import { showThrown } from './show';

const MESSAGE_LENGTH = 1000;
const STACK_LENGTH = 8192;

/** The call of the script's function for a role; undefined: it has none. `input` is the JSON text of the role's input. */
export type CallFinder = (role: Role, found: Found, input: string) => Call | undefined;

/**
 * Leaves `makeGuest` for the host, who takes it away again before any script runs, each in a context of its own. There is one bundle for encoders
 * and one for decoders: to read what is not needed would take longer than most scripts run.
 */
export function layGuest(callOf: CallFinder): void {
  define({ makeGuest: (sink: LogSink, isPromise: (value: unknown) => boolean) => makeGuest(callOf, sink, isPromise) });
}

/** Lays the globals of the scripts, and gives the host its three words. `isPromise` is the host's: only the engine knows a promise from what looks like one. */
function makeGuest(callOf: CallFinder, sink: LogSink, isPromise: (value: unknown) => boolean): Guest {
  const exports = {};
  define({ console: makeConsole(sink), module: { exports }, exports, self: globalThis, global: globalThis });
  let state: 'settled' | 'waiting' | 'broken' = 'settled';
  let call: Call | undefined;
  let result: unknown;

  /** Keeps what the script's function returned; of a promise, what it is settled with. */
  function keep(returned: unknown): void {
    result = returned;
    if (!isPromise(returned)) return;
    state = 'waiting';
    whenSettled(returned, (value) => ((state = 'settled'), (result = value)), (reason) => ((state = 'broken'), (result = reason)));
  }

  return {
    call(role, found, input) {
      call = callOf(role, found, input);
      if (call) keep(call.run());
      return call !== undefined;
    },
    read() {
      if (state === 'broken') throw result;
      return state === 'waiting' ? (call as Call).unsettled() : (call as Call).read(result);
    },
    explain: (thrown) => glue('{"message":', stringify(showThrown(thrown, MESSAGE_LENGTH)), ',"stack":', stringify(stackOf(thrown)), '}'),
  };
}

function stackOf(thrown: unknown): string {
  if (typeof thrown !== 'object' || thrown === null) return '';
  try {
    const { stack } = thrown as { stack?: unknown };
    return typeof stack === 'string' ? cut(stack, STACK_LENGTH) : '';
  } catch {
    return '';
  }
}
