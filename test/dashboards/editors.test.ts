import fc from 'fast-check';
import { isDeepStrictEqual } from 'node:util';
import { engines } from '../support/engines';
import type { HttpAnswer, JsonObject } from '../support/http';
import { DASHBOARDS, DashboardFixture, WIDGETS, type DashboardJson, type WidgetJson } from './dashboardFixture';

const RUNS = 15;
const MAX_PAIRS = 8;

/** One edit of one editor. `target` selects a widget of what the editor last read. */
interface Edit {
  readonly kind: 'reload' | 'save' | 'create' | 'update' | 'delete';
  readonly target: number;
  /** The field that an update changes. */
  readonly field: 'title' | 'options' | 'series';
}

const EDIT = fc.record<Edit>({
  kind: fc.constantFrom('reload', 'save', 'create', 'update', 'delete'),
  target: fc.nat(9),
  field: fc.constantFrom('title', 'options', 'series'),
});
/** The edits that both editors send at the same time. */
const PAIRS = fc.array(fc.tuple(EDIT, EDIT), { minLength: 2, maxLength: MAX_PAIRS });

/** What a client sees of a widget. */
type WidgetState = Pick<WidgetJson, 'title' | 'options' | 'series' | 'etag'>;

/** What a client sees of a dashboard: its etag, and its widgets by id. */
interface State {
  readonly revision: number;
  readonly widgets: ReadonlyMap<string, WidgetState>;
}

/** An edit that was prepared from what its editor last read. */
interface PreparedEdit {
  readonly send: () => Promise<HttpAnswer>;
  /** Returns the state after the edit; undefined if the server cannot answer this in this state. */
  readonly apply: (state: State, answer: HttpAnswer) => State | undefined;
}

const toEtag = (revision: number): string => `"${revision}"`;
const toWidgetState = ({ title, options, series, etag }: WidgetJson): WidgetState => ({ title, options, series, etag });
const toState = ({ revision, content }: DashboardJson): State => ({
  revision,
  widgets: new Map(content.widgets.map((widget) => [widget.id, toWidgetState(widget)])),
});

/** Returns the state with its next revision and these widgets. */
function change({ revision }: State, widgets: Iterable<readonly [string, Omit<WidgetState, 'etag'>]>): State {
  const etag = toEtag(revision + 1);
  return {
    revision: revision + 1,
    widgets: new Map(
      [...widgets].map(([id, widget]) => [id, 'etag' in widget ? (widget as WidgetState) : { ...widget, etag }]),
    ),
  };
}

/** Returns the unchanged state for an answer that says that something was changed or deleted in the meantime. */
function expectConflict(state: State, { status, json }: HttpAnswer): State | undefined {
  const { code } = (json['error'] ?? {}) as { code?: string };
  const isConflict = status === 412 ? code === 'version_conflict' : status === 404 && code === 'widget_not_found';
  return isConflict ? state : undefined;
}

describe.each(engines())('two editors on $name', (engine) => {
  let fixture: DashboardFixture;
  let count = 0;
  beforeAll(async () => {
    fixture = await DashboardFixture.start(engine);
  });
  afterAll(async () => await fixture.stop());

  const nextTitle = (): string => `Edit ${(count += 1)}`;

  /** Returns the fields of a widget that no other widget has. */
  const createFields = () => {
    const title = nextTitle();
    const series = [
      { sensorId: '', deviceId: '', deviceVariable: '', missingDevice: title, keyName: 'temperature', label: '' },
    ];
    return { title, options: { unit: title }, series };
  };

  function prepareSave(dashboard: DashboardJson, target: number): PreparedEdit {
    const { id, etag } = dashboard;
    const kept = dashboard.content.widgets.toSpliced(target, 1);
    const added = createFields();
    const content = { widgets: [...kept, { kind: 'latest', ...added }] };
    return {
      send: async () => await fixture.owner.try(`${DASHBOARDS}/SetDashboardContent`, { id, etag, content }),
      apply: (state, answer) => {
        if (etag !== toEtag(state.revision)) return expectConflict(state, answer);
        const saved = answer.json as unknown as DashboardJson;
        const created = answer.status === 200 && saved.content.widgets.find(({ title }) => title === added.title);
        if (!created) return undefined;
        return change(state, [
          ...kept.map((widget) => [widget.id, toWidgetState(widget)] as const),
          [created.id, added],
        ]);
      },
    };
  }

  function prepareCreate(dashboardId: string): PreparedEdit {
    const added = createFields();
    const request = { dashboardId, kind: 'latest', ...added };
    return {
      send: async () => await fixture.owner.try(`${WIDGETS}/CreateWidget`, request),
      apply: (state, { status, json }) =>
        status === 200 ? change(state, [...state.widgets, [String(json['id']), added]]) : undefined,
    };
  }

  /** Prepares the update or deletion of a widget. It is refused only if that widget was changed in the meantime. */
  function prepareWidgetEdit(dashboardId: string, seen: WidgetJson, changed: JsonObject | undefined): PreparedEdit {
    const request = { dashboardId, widgetId: seen.id, etag: seen.etag, ...changed };
    const method = changed ? 'UpdateWidget' : 'DeleteWidget';
    return {
      send: async () => await fixture.owner.try(`${WIDGETS}/${method}`, request),
      apply: (state, answer) => {
        const current = state.widgets.get(seen.id);
        if (current?.etag !== seen.etag) return expectConflict(state, answer);
        if (answer.status !== 200) return undefined;
        const { etag: _old, ...fields } = current;
        const widgets = new Map<string, Omit<WidgetState, 'etag'>>(state.widgets);
        if (changed) widgets.set(seen.id, { ...fields, ...changed });
        else widgets.delete(seen.id);
        return change(state, widgets);
      },
    };
  }

  function prepareReload(id: string): PreparedEdit {
    return {
      send: async () => await fixture.owner.try(`${DASHBOARDS}/GetDashboard`, { id }),
      apply: (state, { json }) =>
        isDeepStrictEqual(toState(json as unknown as DashboardJson), state) ? state : undefined,
    };
  }

  function prepare(seen: DashboardJson, { kind, target, field }: Edit): PreparedEdit {
    const { id, content } = seen;
    const widget = content.widgets[target % Math.max(1, content.widgets.length)];
    if (kind === 'save') return prepareSave(seen, target);
    if (kind === 'create') return prepareCreate(id);
    if (kind === 'reload' || !widget) return prepareReload(id);
    return prepareWidgetEdit(id, widget, kind === 'update' ? { [field]: createFields()[field] } : undefined);
  }

  test('lose no accepted edit, and learn of every refused one', async () => {
    await fc.assert(
      fc.asyncProperty(PAIRS, async (pairs) => {
        const dashboard = await fixture.owner.createDashboard();
        const seen: [DashboardJson, DashboardJson] = [dashboard, dashboard];
        let state = toState(dashboard);
        for (const pair of pairs) {
          const [first, second] = [prepare(seen[0], pair[0]), prepare(seen[1], pair[1])];
          const [firstAnswer, secondAnswer] = await Promise.all([first.send(), second.send()]);
          const afterFirst = first.apply(state, firstAnswer);
          const afterSecond = second.apply(state, secondAnswer);
          const possible = [
            afterFirst && second.apply(afterFirst, secondAnswer),
            afterSecond && first.apply(afterSecond, firstAnswer),
          ].filter((one) => one !== undefined);
          state = toState(await fixture.owner.getDashboard(dashboard.id));
          expect(possible).toContainEqual(state);
          [firstAnswer, secondAnswer].forEach(({ status, json }, editor) => {
            if (status === 200 && json['content']) seen[editor] = json as unknown as DashboardJson;
          });
        }
      }),
      { numRuns: RUNS },
    );
  });

  test('who save at the same time: one succeeds, the other learns the newer etag', async () => {
    const { owner } = fixture;
    const { id } = await owner.createDashboard();
    const save = async () =>
      await owner.try(`${DASHBOARDS}/SetDashboardContent`, {
        id,
        etag: '"1"',
        content: { widgets: [{ kind: 'clock', title: nextTitle() }] },
      });
    const answers = await Promise.all(Array.from({ length: 8 }, save));
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
      200, 412, 412, 412, 412, 412, 412, 412,
    ]);
    for (const { json } of answers.filter(({ status }) => status === 412))
      expect(json['error']).toMatchObject({ details: [{ metadata: { etag: '"2"' } }] });
    const saved = answers.find(({ status }) => status === 200)?.json;
    expect(await owner.getDashboard(id)).toEqual(saved);
  });

  test('who change different widgets at the same time do not conflict', async () => {
    const { owner } = fixture;
    const widgets = Array.from({ length: 10 }, () => ({ kind: 'clock' }));
    const dashboard = await owner.createDashboard({ content: { widgets } });
    const titles = await Promise.all(
      dashboard.content.widgets.map(async ({ id: widgetId, etag }) => {
        const request = { dashboardId: dashboard.id, widgetId, etag, title: nextTitle() };
        return (await owner.call<WidgetJson>(`${WIDGETS}/UpdateWidget`, request)).title;
      }),
    );
    const { content, revision } = await owner.getDashboard(dashboard.id);
    expect(content.widgets.map(({ title }) => title)).toEqual(titles);
    expect(revision).toBe(11);
  });
});
