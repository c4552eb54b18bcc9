// Prometheus' answers -> Grafana's data frames, as Grafana's own data source makes them.
import { FieldType, standardTransformers, standardTransformersRegistry, toDataFrame, transformDataFrame } from '@grafana/data';
import { firstValueFrom } from 'rxjs';

standardTransformersRegistry.setInit(() =>
  [standardTransformers.mergeTransformer, standardTransformers.organizeFieldsTransformer].map((one) => ({
    id: one.id, name: one.name, transformation: () => Promise.resolve(one),
  }))
);

// Variables as Grafana writes them into a query; what is chosen comes from the address.
export function filledIn(text, chosen) {
  const names = Object.keys(chosen).sort((one, other) => other.length - one.length);
  return names.reduce((done, name) => done.replaceAll('$' + name, chosen[name]), text);
}

async function asked(path, given) {
  const answer = await fetch(path, { method: 'POST', body: new URLSearchParams(given) });
  const said = await answer.json();
  if (said.status !== 'success') {
    throw new Error(said.error);
  }
  return said.data.result;
}

const named = (legend, metric) => legend.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => metric[label] ?? '');

function series(target, row) {
  const samples = row.values ?? [row.value];
  return toDataFrame({
    refId: target.refId,
    name: named(target.legendFormat, row.metric),
    fields: [
      { name: 'Time', type: FieldType.time, values: samples.map(([at]) => at * 1000) },
      {
        name: 'Value', type: FieldType.number, values: samples.map(([, value]) => Number(value)), labels: row.metric,
        config: { displayNameFromDS: named(target.legendFormat, row.metric) },
      },
    ],
  });
}

function table(target, rows, several) {
  const labels = [...new Set(rows.flatMap((row) => Object.keys(row.metric)))].sort();
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: rows.map((row) => row.value[0] * 1000) },
      ...labels.map((name) => ({ name, type: FieldType.string, values: rows.map((row) => row.metric[name] ?? '') })),
      {
        name: several ? `Value #${target.refId}` : 'Value', type: FieldType.number,
        values: rows.map((row) => Number(row.value[1])),
      },
    ],
  });
}

// One frame for each series, or for a table one frame after its transformations.
export async function framesOf(panel, chosen, range) {
  const frames = [];
  for (const target of panel.targets) {
    const query = filledIn(target.expr, chosen);
    if (target.format === 'table') {
      const rows = await asked('/prom/api/v1/query', { query, time: range.end });
      frames.push(table(target, rows, panel.targets.length > 1));
    } else if (target.instant) {
      const rows = await asked('/prom/api/v1/query', { query, time: range.end });
      frames.push(...rows.map((row) => series(target, row)));
    } else {
      const rows = await asked('/prom/api/v1/query_range', { query, start: range.begin, end: range.end, step: range.step });
      frames.push(...rows.map((row) => series(target, row)));
    }
  }
  const full = panel.type === 'table' ? frames.filter((frame) => frame.length) : frames;
  return firstValueFrom(transformDataFrame(panel.transformations ?? [], full));
}
