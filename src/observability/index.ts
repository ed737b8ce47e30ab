export { ClockMonitor, loadClockState } from './clockMonitor';
export { readDescriptorUsage, watchDescriptors } from './descriptorWatch';
export { CallMetrics } from './metrics/callMetrics';
export { Metrics, type MetricsSources } from './metrics/metrics';
