import type { DeliveredCommand, GatewayOptions } from '../options';
import { type Outcome, outcome, outcomeOf, outcomeOfError } from './outcome';

/** What one delivery is made with. */
export interface RunningDeliveryOptions {
  readonly deliver: GatewayOptions['deliver'];
  readonly command: DeliveredCommand;
  readonly timeoutMs: number;
  /** The callback answered after it was over. */
  readonly onLate: (late: Outcome) => void;
}

/** One call of `deliver`. Whatever that does, there is one outcome. */
export class RunningDelivery {
  /** Never rejects. */
  readonly outcome: Promise<Outcome>;
  private readonly controller = new AbortController();
  private settle!: (outcome: Outcome) => void;
  private readonly timer: NodeJS.Timeout;
  private isOver = false;

  /** Begins it: `deliver` is called at once. */
  constructor({ deliver, command, timeoutMs, onLate }: RunningDeliveryOptions) {
    this.outcome = new Promise((resolve) => (this.settle = resolve));
    this.timer = setTimeout(() => this.giveUp(outcome('no_answer', 'delivery_timeout', `the delivery took longer than ${timeoutMs / 1000} s`)), timeoutMs);
    const answered = (found: Outcome): void => {
      if (this.isOver) onLate(found);
      this.finish(found);
    };
    void (async () => await deliver(command, { signal: this.controller.signal }))().then(
      (given) => answered(outcomeOf(given)),
      (error: unknown) => answered(outcomeOfError(error)),
    );
  }

  /** Tells the delivery that it is to end; its answer still counts. */
  abort(reason: string): void {
    this.controller.abort(new Error(reason));
  }

  /** Ends it without an answer. */
  giveUp(found: Outcome): void {
    this.finish(found);
    this.abort(found.text);
  }

  private finish(found: Outcome): void {
    this.isOver = true;
    clearTimeout(this.timer);
    this.settle(found);
  }
}
