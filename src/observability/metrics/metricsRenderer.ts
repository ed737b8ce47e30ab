import { Registry, type Metric } from 'prom-client';
import type { Logger } from '../../kernel/logger';
import type { DurationHistogram } from '../../kernel/durations';
import type { MetricFamily, Sample } from './metricFamily';

interface RenderedSample {
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/**
 * Renders every family in the Prometheus text format. One collection at a time: concurrent callers share its result.
 */
export class MetricsRenderer {
  readonly contentType: string;
  private readonly registry = new Registry();
  private collection: Promise<string> | undefined;

  /** Throws if a name occurs twice. */
  constructor(
    families: readonly MetricFamily[],
    private readonly log: Logger,
  ) {
    this.contentType = this.registry.contentType;
    // The registry only needs `name` and `get` of a metric. The metric classes of prom-client would search their labels
    // at each count.
    for (const family of families) {
      this.registry.registerMetric({
        name: family.name,
        get: async () => await this.collect(family),
      } as unknown as Metric);
    }
  }

  /** Returns the current text. */
  render(): Promise<string> {
    this.collection ??= this.registry.metrics().finally(() => (this.collection = undefined));
    return this.collection;
  }

  /** Reads one family. If its source fails, the family is empty, so that the other families are still shown. */
  private async collect(
    family: MetricFamily,
  ): Promise<{ name: string; help: string; type: string; values: RenderedSample[] }> {
    const { name, help, type } = family;
    try {
      return { name, help, type, values: await renderFamily(family) };
    } catch (err) {
      this.log.debug({ err, metric: name }, 'metrics.collect_failed');
      return { name, help, type, values: [] };
    }
  }
}

/** Converts the samples of a family to the form of prom-client. */
async function renderFamily(family: MetricFamily): Promise<RenderedSample[]> {
  if (family.type === 'histogram')
    return Array.from(family.samples(), (sample) => renderHistogram(family, sample)).flat();
  return Array.from(await family.samples(), ({ labels, value }) => ({ labels: toLabels(family, labels), value }));
}

/**
 * Converts a histogram to its `_bucket`, `_sum` and `_count` samples. Each bucket of Prometheus contains the smaller
 * ones too.
 */
function renderHistogram(
  { name, labels: labelNames }: Pick<MetricFamily, 'name' | 'labels'>,
  { labels: labelValues, value: { bounds, counts, sum } }: Sample<DurationHistogram>,
): RenderedSample[] {
  const labels = toLabels({ labels: labelNames }, labelValues);
  let cumulativeCount = 0;
  const buckets = counts.map((bucketCount, index): RenderedSample => {
    cumulativeCount += bucketCount;
    return { metricName: `${name}_bucket`, labels: { ...labels, le: bounds[index] ?? '+Inf' }, value: cumulativeCount };
  });
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sum },
    { metricName: `${name}_count`, labels, value: cumulativeCount },
  ];
}

/** Combines the names of the labels with their values. */
function toLabels({ labels }: Pick<MetricFamily, 'labels'>, values: readonly string[]): Record<string, string> {
  return Object.fromEntries(labels.map((label, index) => [label, values[index] ?? '']));
}
