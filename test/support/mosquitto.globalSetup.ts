import { findMosquitto } from './mosquitto';

/**
 * Runs once before all tests, to report one sentence instead of a failure of every test. jest requires the default
 * export.
 */
export default function needsMosquitto(): void {
  findMosquitto();
}
