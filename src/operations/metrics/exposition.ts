import { Registry, type Metric } from 'prom-client';
import type { Logger } from '../../kernel/logger';
import type { Durations } from '../../kernel/durations';
import type { Family, Sample } from './family';

interface Value {
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

/** Every family as the text that Prometheus reads. One collection at a time: whoever asks meanwhile is given the same. */
export class Exposition {
  readonly contentType: string;
  private readonly registry = new Registry();
  private running: Promise<string> | undefined;

  /** Throws when a name stands there twice. */
  constructor(
    families: readonly Family[],
    private readonly log: Logger,
  ) {
    this.contentType = this.registry.contentType;
    // The registry asks a metric for no more than this; prom-client's own would look for their labels at each count.
    for (const family of families) this.registry.registerMetric({ name: family.name, get: async () => await this.read(family) } as unknown as Metric);
  }

  /** The text of now. */
  text(): Promise<string> {
    this.running ??= this.registry.metrics().finally(() => (this.running = undefined));
    return this.running;
  }

  /** A source that fails keeps no other from being shown. */
  private async read(family: Family): Promise<{ name: string; help: string; type: string; values: Value[] }> {
    const { name, help, type } = family;
    try {
      return { name, help, type, values: await valuesOf(family) };
    } catch (err) {
      this.log.debug({ err, metric: name }, 'metrics.not_read');
      return { name, help, type, values: [] };
    }
  }
}

async function valuesOf(family: Family): Promise<Value[]> {
  if (family.type === 'histogram') return Array.from(family.samples(), (sample) => bucketsOf(family, sample)).flat();
  return Array.from(await family.samples(), ({ labels, value }) => ({ labels: named(family, labels), value }));
}

/** Prometheus counts each class together with those before. */
function bucketsOf({ name, labels: names }: Pick<Family, 'name' | 'labels'>, { labels: given, value: { bounds, counts, sum } }: Sample<Durations>): Value[] {
  const labels = named({ labels: names }, given);
  let count = 0;
  const buckets = counts.map((more, at): Value => ({ metricName: `${name}_bucket`, labels: { ...labels, le: bounds[at] ?? '+Inf' }, value: (count += more) }));
  return [...buckets, { metricName: `${name}_sum`, labels, value: sum }, { metricName: `${name}_count`, labels, value: count }];
}

function named({ labels }: Pick<Family, 'labels'>, values: readonly string[]): Record<string, string> {
  return Object.fromEntries(labels.map((label, at) => [label, values[at] ?? '']));
}
