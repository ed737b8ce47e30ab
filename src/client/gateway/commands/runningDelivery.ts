import type { DeliveredCommand, GatewayOptions } from '../options';
import { type Outcome, createOutcome, parseOutcome, toErrorOutcome } from './outcome';

/** The options of one delivery. */
export interface RunningDeliveryOptions {
  readonly deliver: GatewayOptions['deliver'];
  readonly command: DeliveredCommand;
  readonly timeoutMs: number;
  /** Called when `deliver` returns after the delivery has ended. */
  readonly onLate: (late: Outcome) => void;
}

/** One call of `deliver`, with exactly one outcome. */
export class RunningDelivery {
  /** Never rejects. */
  readonly outcome: Promise<Outcome>;
  private readonly controller = new AbortController();
  private resolveOutcome!: (outcome: Outcome) => void;
  private readonly timer: NodeJS.Timeout;
  private hasEnded = false;

  /** Starts the delivery: `deliver` is called immediately. */
  constructor({ deliver, command, timeoutMs, onLate }: RunningDeliveryOptions) {
    this.outcome = new Promise((resolve) => (this.resolveOutcome = resolve));
    this.timer = setTimeout(
      () =>
        this.abandon(
          createOutcome('no_answer', 'delivery_timeout', `the delivery took longer than ${timeoutMs / 1000} s`),
        ),
      timeoutMs,
    );
    const handleResult = (deliveryOutcome: Outcome): void => {
      if (this.hasEnded) onLate(deliveryOutcome);
      this.finish(deliveryOutcome);
    };
    // The async function turns an error that `deliver` throws synchronously into a rejection.
    void (async () => await deliver(command, { signal: this.controller.signal }))().then(
      (returnValue) => handleResult(parseOutcome(returnValue)),
      (error: unknown) => handleResult(toErrorOutcome(error)),
    );
  }

  /** Aborts the signal of the delivery; its result still counts. */
  abort(reason: string): void {
    this.controller.abort(new Error(reason));
  }

  /** Ends the delivery with this outcome without waiting for `deliver`, and aborts its signal. */
  abandon(deliveryOutcome: Outcome): void {
    this.finish(deliveryOutcome);
    this.abort(deliveryOutcome.text);
  }

  /** Resolves with the first outcome; later ones have no effect. */
  private finish(deliveryOutcome: Outcome): void {
    this.hasEnded = true;
    clearTimeout(this.timer);
    this.resolveOutcome(deliveryOutcome);
  }
}
