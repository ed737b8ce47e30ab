import {
  type DurationHistogram,
  LabeledDurationHistograms,
  LONG_DURATION_BUCKETS,
  SHORT_DURATION_BUCKETS,
} from '../../kernel/durations';
import { Counter } from '../../kernel/counter';
import { histogramBy, type MetricFamily } from './metricFamily';

/** The start of a call: fields of the ObservedCall of the api module. */
interface StartedCall {
  readonly path: string;
  readonly kind: string;
  readonly isKnown: boolean;
  readonly transport: 'grpc' | 'http';
}

/** The outcome of a call: fields of the CallEnd of the api module. */
interface CompletedCall {
  readonly code: string;
  readonly durationMs: number;
}

type Transport = StartedCall['transport'];

/** Counts calls and measures their durations. The api module calls it at the start and the end of each call. */
export class CallMetrics {
  private readonly countsByPath = new Map<string, Readonly<Record<Transport, MethodCounts>>>();
  private readonly unaryDurations = new LabeledDurationHistograms(SHORT_DURATION_BUCKETS);
  private readonly streamDurations = new LabeledDurationHistograms(LONG_DURATION_BUCKETS);

  /**
   * A call started; the returned observer is notified of its end. Only the first call of a method allocates anything.
   */
  onCallStarted({ path, kind, isKnown, transport }: StartedCall): MethodCounts {
    const countedPath = isKnown ? path : UNKNOWN_METHOD;
    const counts = (this.countsByPath.get(countedPath) ?? this.addMethod(countedPath, kind))[transport];
    counts.openCount += 1;
    return counts;
  }

  /** Creates the metrics of calls. */
  createFamilies(): MetricFamily[] {
    const listCounts = (): MethodCounts[] => [...this.countsByPath.values()].flatMap(({ grpc, http }) => [grpc, http]);
    return [
      {
        name: 'plantroom_rpc_requests_total',
        help: 'Completed calls by method, gRPC status (also for HTTP) and transport. method="unknown": gRPC calls of a method that does not exist.',
        type: 'counter',
        labels: ['method', 'code', 'transport'],
        samples: () =>
          listCounts().flatMap(({ method, codes, transport }) =>
            Array.from(codes.entries(), ([code, value]) => ({ labels: [method, code, transport], value })),
          ),
      },
      {
        name: 'plantroom_rpc_requests_in_flight',
        help: 'Calls in progress by method and transport, including open streams.',
        type: 'gauge',
        labels: ['method', 'transport'],
        samples: () =>
          listCounts().map(({ method, transport, openCount }) => ({ labels: [method, transport], value: openCount })),
      },
      histogramBy(
        'plantroom_rpc_request_duration_seconds',
        'Duration of unary calls, from the request headers to the end of the response.',
        'method',
        this.unaryDurations,
      ),
      histogramBy('plantroom_stream_duration_seconds', 'Duration of closed streams.', 'method', this.streamDurations),
    ];
  }

  /** Creates the counts of a method for both transports, which share the durations. */
  private addMethod(path: string, kind: string): Readonly<Record<Transport, MethodCounts>> {
    const method = path.slice(1); // without the leading slash
    const durations = (kind === 'unary' ? this.unaryDurations : this.streamDurations).get(method);
    const counts = {
      grpc: new MethodCounts(method, 'grpc', durations),
      http: new MethodCounts(method, 'http', durations),
    };
    this.countsByPath.set(path, counts);
    return counts;
  }
}

/** All unknown methods are counted under this path, because their number is unbounded. */
const UNKNOWN_METHOD = '/unknown';

/** The counts of one method over one transport; notified of the end of each of its calls. */
class MethodCounts {
  readonly codes = new Counter();
  openCount = 0;

  constructor(
    readonly method: string,
    readonly transport: Transport,
    private readonly durations: DurationHistogram,
  ) {}

  /** Counts a completed call. */
  onCallEnded({ code, durationMs }: CompletedCall): void {
    this.openCount -= 1;
    this.codes.add(code);
    this.durations.add(durationMs);
  }
}
