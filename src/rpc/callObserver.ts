import type { MethodFacts } from './descriptors';

/** A call whose headers are here, as those who observe calls see it. */
export interface ObservedCall {
  /** `/package.Service/Method`; of a method that the server does not have, what the caller wrote. */
  readonly path: string;
  readonly kind: MethodFacts['kind'];
  /** Whether the server has the method: the paths of those that it has not are without number. */
  readonly isKnown: boolean;
  readonly transport: 'grpc' | 'http';
  readonly requestId: string;
  /** The caller's header of that name (W3C Trace Context), unchecked; undefined: there is none. Read when it is asked for. */
  readonly traceparent: string | undefined;
}

/** How a call ended. */
export interface CallEnd {
  /** The name of the gRPC status: `OK`, `NOT_FOUND`. */
  readonly code: string;
  /** The reason that the caller was told; undefined for success. */
  readonly reason: string | undefined;
  /** The HTTP status; undefined over gRPC. */
  readonly http: number | undefined;
  /** Since its headers came, in milliseconds. */
  readonly durationMs: number;
}

/** Who wants to know how one call ends. */
export interface CallEnding {
  /** Called once, synchronously; must be quick and may not throw. */
  ended(end: CallEnd): void;
  /** Runs what the server does for a call of one message, so that it is known whose work that is; absent: nobody wants to know. */
  inside?(work: () => void): void;
}

/** Who is told of calls; app.ts hands them in. */
export interface CallObserver {
  /** The headers of a call are here, nothing was decided yet. Called synchronously; must be quick and may not throw. Undefined: its end is of no interest. */
  began(call: ObservedCall): CallEnding | undefined;
}

/** All of them as one; undefined where there is none, so that an unobserved call costs nothing. */
export function observersAsOne(observers: readonly CallObserver[]): CallObserver | undefined {
  const [first, ...others] = observers;
  if (!first || others.length === 0) return first;
  return {
    began: (call) => {
      const endings = observers.map((one) => one.began(call)).filter((ending) => ending !== undefined);
      const outer = endings.find((one) => 'inside' in one); // traces; one is enough
      return endings.length === 0 ? undefined : { ended: (end) => endings.forEach((one) => one.ended(end)), ...(outer && { inside: (work) => outer.inside?.(work) }) };
    },
  };
}
