// A dashboard's JSON and a Prometheus -> the dashboard, by the components of @grafana/ui.
import {
  applyFieldOverrides, createTheme, dateTime, EventBusSrv, FieldConfigOptionsRegistry, getDisplayProcessor, getFieldDisplayValues,
  ThemeContext,
} from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, PanelContextProvider, Table, TimeSeries } from '@grafana/ui';
import React, { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { MemoryRouter } from 'react-router-dom';

import { Cells, orange } from './cells.jsx';
import { filledIn, framesOf } from './frames.js';

const given = JSON.parse(decodeURIComponent(location.hash.slice(1)));
const theme = createTheme({ colors: { mode: 'light' } });
const ROW = 38;
const GAP = 8;
const plain = (id, isCustom = false) => ({
  id, path: isCustom ? id.replace('custom.', '') : id, name: id, isCustom, process: (value) => value,
  shouldApply: () => true, override: () => null, editor: () => null,
});
const registry = new FieldConfigOptionsRegistry(() => [
  ...['unit', 'min', 'max', 'decimals', 'color', 'thresholds', 'mappings', 'displayName', 'noValue', 'links'].map((id) => plain(id)),
  plain('custom.cellOptions', true), plain('custom.width', true),
]);
const LINE = { drawStyle: 'line', lineInterpolation: 'linear', barAlignment: 0, pointSize: 5, spanNulls: false,
  axisPlacement: 'auto', scaleDistribution: { type: 'linear' }, hideFrom: { legend: false, tooltip: false, viz: false } };

function shown(panel, frames) {
  const { defaults, overrides } = panel.fieldConfig;
  const custom = panel.type === 'timeseries' ? { ...LINE, ...defaults.custom } : { ...defaults.custom };
  const mode = panel.type === 'stat' ? 'thresholds' : 'palette-classic';
  const config = { defaults: { color: { mode }, ...defaults, custom }, overrides };
  const data = applyFieldOverrides({
    data: frames, fieldConfig: config, replaceVariables: (text) => filledIn(text, given.chosen), theme, timeZone: 'utc',
    fieldConfigRegistry: registry,
  });
  for (const frame of data) {
    for (const field of frame.fields) {
      field.config.custom = { ...custom, ...field.config.custom };
      field.display ??= getDisplayProcessor({ field, theme, timeZone: 'utc' });
    }
  }
  return data;
}

function Stats({ panel, data, width, height }) {
  const values = getFieldDisplayValues({
    fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: (text) => text, theme,
    data, timeZone: 'utc',
  });
  return (
    <div style={{ display: 'flex' }}>
      {values.map((one, index) => (
        <BigValue key={index} value={{ ...one.display, text: panel.options.textMode === 'name' ? one.display.title : one.display.text,
          ...(panel.options.textMode === 'name' ? { prefix: '', suffix: '' } : {}), title: undefined }}
          width={width / values.length} height={height} theme={theme} colorMode={panel.options.colorMode}
          graphMode="none" textMode="value" />
      ))}
    </div>
  );
}

function Drawn({ panel, data, width, height }) {
  const { range } = given;
  if (panel.type === 'stat') {
    return <Stats {...{ panel, data, width, height }} />;
  }
  if (panel.type === 'table') {
    return (
      <Table data={data[0]} width={width} height={height} initialSortBy={panel.options.sortBy} fieldConfig={panel.fieldConfig} />
    );
  }
  if (panel.type === 'timeseries') {
    const time = { from: dateTime(range.begin * 1000), to: dateTime(range.end * 1000) };
    return (
      <PanelContextProvider value={{ eventsScope: 'global', eventBus: new EventBusSrv() }}>
        <TimeSeries frames={data} width={width} height={height} timeZone="utc" legend={panel.options.legend}
          timeRange={{ ...time, raw: time }} />
      </PanelContextProvider>
    );
  }
  const words = panel.type === 'state-timeline';
  const colourOf = words ? (value, field) => field.display(value).color : orange(data);
  return <Cells {...{ frames: data, width, height, range, colourOf, words }} />;
}

class Guard extends React.Component {
  state = { failed: '' };
  static getDerivedStateFromError(error) {
    return { failed: String(error) };
  }
  render() {
    return this.state.failed ? <pre className="failed">{this.state.failed}</pre> : this.props.children;
  }
}

function Panel({ panel, width, height, onDone }) {
  const [data, setData] = useState(null);
  const [failed, setFailed] = useState('');
  useEffect(() => {
    framesOf(panel, given.chosen, given.range)
      .then((frames) => setData(shown(panel, frames)), (error) => setFailed(String(error)))
      .finally(onDone);
  }, []);
  const nothing = data !== null && !data.some((frame) => frame.length);
  return (
    <PanelChrome title={panel.title} description={panel.description} width={width} height={height}>
      {(innerWidth, innerHeight) => (
        <div data-panel={panel.title} data-frames={data ? data.length : 0}>
          {failed && <pre className="failed">{failed}</pre>}
          {nothing && <div style={{ padding: 24, textAlign: 'center' }}>{panel.fieldConfig.defaults.noValue}</div>}
          {data !== null && !nothing && (
            <Guard><Drawn {...{ panel, data, width: innerWidth, height: innerHeight }} /></Guard>
          )}
        </div>
      )}
    </PanelChrome>
  );
}

function Board({ board }) {
  const [done, setDone] = useState(0);
  const cell = (given.width - GAP) / 24;
  const panels = board.panels.filter((panel) => panel.type !== 'row');
  useEffect(() => {
    document.body.dataset.done = String(done === panels.length);
  }, [done]);
  const lowest = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  return (
    <div style={{ position: 'relative', height: 48 + lowest * ROW, width: given.width }}>
      <h3 style={{ padding: '12px 16px', margin: 0 }}>{board.title}</h3>
      {board.panels.map((panel) => {
        const { x, y, w, h } = panel.gridPos;
        const style = { position: 'absolute', left: GAP + x * cell, top: 48 + y * ROW };
        if (panel.type === 'row') {
          return <h5 key={panel.id} style={{ ...style, paddingTop: 8 }}>{panel.title}</h5>;
        }
        return (
          <div key={panel.id} style={style}>
            <Panel panel={panel} width={w * cell - GAP} height={h * ROW - GAP} onDone={() => setDone((n) => n + 1)} />
          </div>
        );
      })}
    </div>
  );
}

const board = await (await fetch(`/boards/${given.board}.json`)).json();
createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <MemoryRouter><GlobalStyles /><Board board={board} /></MemoryRouter>
  </ThemeContext.Provider>
);
