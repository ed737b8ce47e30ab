import type { MethodDescriptor } from '../descriptors/descriptors';

/** A call whose headers have arrived, as observers see it. */
export interface ObservedCall {
  /** `/package.Service/Method`; for an unknown method the path that the client sent. */
  readonly path: string;
  readonly kind: MethodDescriptor['kind'];
  /** Whether the server has the method. Do not use the path of an unknown method as a label: it can be any text. */
  readonly isKnown: boolean;
  readonly transport: 'grpc' | 'http';
  readonly requestId: string;
  /** The header of that name (W3C Trace Context), not validated; undefined if absent. It is read on access. */
  readonly traceparent: string | undefined;
}

/** The end of a call. */
export interface CallEnd {
  /** The name of the gRPC status: `OK`, `NOT_FOUND`. */
  readonly code: string;
  /** The reason in the error response; undefined for success. */
  readonly reason: string | undefined;
  /** The HTTP status; undefined over gRPC. */
  readonly http: number | undefined;
  /** The time since the headers arrived, in milliseconds. */
  readonly durationMs: number;
}

/** Receives the end of one call. */
export interface CallEndListener {
  /** Called once, synchronously. It must be fast and must not throw. */
  onCallEnded(end: CallEnd): void;
  /**
   * Runs the work of a call with one request message in the listener's context, for example a trace span. If absent,
   * the work runs directly.
   */
  runInContext?(work: () => void): void;
}

/** Observes calls. The composition root (server) passes the observers in. */
export interface CallObserver {
  /**
   * Called synchronously when the headers of a call have arrived, before any check. It must be fast and must not throw.
   * Returns a listener for the end of the call; undefined if the observer does not need it.
   */
  onCallStarted(call: ObservedCall): CallEndListener | undefined;
}

/**
 * Combines observers into one; undefined if there are none, so that unobserved calls have no overhead. The listeners of
 * all observers receive the end of a call; its work runs in the context of the first listener that has `runInContext`.
 */
export function combineObservers(observers: readonly CallObserver[]): CallObserver | undefined {
  const [first, ...furtherObservers] = observers;
  if (!first || furtherObservers.length === 0) return first;
  return {
    onCallStarted: (call) => {
      const listeners = observers
        .map((observer) => observer.onCallStarted(call))
        .filter((listener) => listener !== undefined);
      if (listeners.length === 0) return undefined;
      // Only traces have it, so there is one at most.
      const tracer = listeners.find((listener) => 'runInContext' in listener);
      return {
        onCallEnded: (end) => listeners.forEach((listener) => listener.onCallEnded(end)),
        ...(tracer && { runInContext: (work) => tracer.runInContext?.(work) }),
      };
    },
  };
}
