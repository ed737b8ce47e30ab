export { ReachGate, reachQueries, type ReachQueries } from './reachGate';
