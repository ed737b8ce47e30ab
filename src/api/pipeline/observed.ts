import type { ObservedCall } from './callObserver';
import type { ServerCall } from './serverCall';
import { isKnown } from './methodHandler';

/** A view of a call for its observers. Values are computed on access, so unused ones have no cost. */
export class ObservedCallView implements ObservedCall {
  constructor(private readonly call: ServerCall) {}

  get path(): string {
    return this.call.context.path;
  }

  get kind(): ObservedCall['kind'] {
    return this.call.method.descriptor.kind;
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
    return this.call.header('traceparent');
  }
}
