import { type Durations, DurationsBy, LONG, QUICK } from '../../kernel/durations';
import { Tally } from '../../kernel/tally';
import { histogramBy, type Family } from './family';

/** What is looked at of a call (rpc's ObservedCall). */
export interface CallFacts {
  readonly path: string;
  readonly kind: string;
  readonly isKnown: boolean;
  readonly transport: 'grpc' | 'http';
}

/** How it ended (rpc's CallEnd). */
export interface CallEndFacts {
  readonly code: string;
  readonly durationMs: number;
}

type Transport = CallFacts['transport'];

/** Counts calls: an observer of the edge. */
export class CallMetrics {
  private readonly methods = new Map<string, Readonly<Record<Transport, MethodCounts>>>();
  private readonly unary = new DurationsBy(QUICK);
  private readonly streams = new DurationsBy(LONG);

  /** A call began; what is answered is told of its end. Only the first call of a method makes anything new. */
  began({ path, kind, isKnown, transport }: CallFacts): MethodCounts {
    const method = isKnown ? path : UNKNOWN;
    const counts = (this.methods.get(method) ?? this.first(method, kind))[transport];
    counts.open += 1;
    return counts;
  }

  /** What is shown of them. */
  families(): Family[] {
    const all = (): MethodCounts[] => [...this.methods.values()].flatMap(({ grpc, http }) => [grpc, http]);
    return [
      {
        name: 'plantroom_calls_total',
        help: 'Calls that ended, by method, by the name of their gRPC status (over HTTP too), and by transport; method="unknown" is what the server has no method for (gRPC alone: over HTTP what has no route is no call).',
        type: 'counter',
        labels: ['method', 'code', 'transport'],
        samples: () => all().flatMap(({ method, codes, transport }) => Array.from(codes.entries(), ([code, value]) => ({ labels: [method, code, transport], value }))),
      },
      {
        name: 'plantroom_calls_open',
        help: 'Calls that are open now, by method and transport; streams stay open as long as somebody listens.',
        type: 'gauge',
        labels: ['method', 'transport'],
        samples: () => all().map(({ method, transport, open }) => ({ labels: [method, transport], value: open })),
      },
      histogramBy('plantroom_call_duration_seconds', 'How long calls with one answer took, from their headers to their end.', 'method', this.unary),
      histogramBy('plantroom_stream_duration_seconds', 'How long streams were open, of those that ended.', 'method', this.streams),
    ];
  }

  private first(path: string, kind: string): Readonly<Record<Transport, MethodCounts>> {
    const method = path.slice(1);
    const durations = (kind === 'unary' ? this.unary : this.streams).of(method);
    const counts = { grpc: new MethodCounts(method, 'grpc', durations), http: new MethodCounts(method, 'http', durations) };
    this.methods.set(path, counts);
    return counts;
  }
}

/** The paths of methods that the server does not have are without number. */
const UNKNOWN = '/unknown';

/** The counts of one method over one transport; told of the end of each of its calls. */
class MethodCounts {
  readonly codes = new Tally();
  open = 0;

  constructor(
    readonly method: string,
    readonly transport: Transport,
    private readonly durations: Durations,
  ) {}

  ended({ code, durationMs }: CallEndFacts): void {
    this.open -= 1;
    this.codes.add(code);
    this.durations.add(durationMs);
  }
}
