import type { ObservedCall } from '../callObserver';
import type { ServedCall } from './servedCall';
import { isKnown } from './servedMethod';

/** A call as its observers see it: what they do not ask for costs nothing. */
export class Observed implements ObservedCall {
  constructor(private readonly call: ServedCall) {}

  get path(): string {
    return this.call.context.path;
  }

  get kind(): ObservedCall['kind'] {
    return this.call.method.facts.kind;
  }

  get isKnown(): boolean {
    return isKnown(this.call.method);
  }

  get transport(): ObservedCall['transport'] {
    return this.call.transport;
  }

  get requestId(): string {
    return this.call.context.requestId;
  }

  get traceparent(): string | undefined {
    return this.call.traceparent;
  }
}
